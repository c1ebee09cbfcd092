"""Fails if a test was skipped, or expected to fail, that .ci/allowed-skips does not name with a reason."""

from __future__ import annotations

import fnmatch
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

ALLOWED = Path(__file__).with_name("allowed-skips")


def allowed_patterns() -> list[str]:
    """The patterns of the list; each line is `pattern  # reason`.

    Raises:
        SystemExit: a line has no reason.
    """
    patterns = []
    for line in ALLOWED.read_text().splitlines():
        pattern, _, reason = line.partition("#")
        if pattern.strip():
            if not reason.strip():
                sys.exit(f"{ALLOWED}: no reason given for {pattern.strip()}")
            patterns.append(pattern.strip())
    return patterns


def main(report: Path) -> None:
    """Compare the JUnit report that pytest wrote with the list.

    Raises:
        SystemExit: no test ran, or one was skipped that is not on the list.
    """
    cases = list(ET.parse(report).iter("testcase"))  # noqa: S314 - our own pytest wrote it
    if not cases:
        sys.exit("no test ran")
    patterns = allowed_patterns()
    surprises = []
    for case in cases:
        skipped = case.find("skipped")
        test = f"{case.get('classname')}::{case.get('name')}"
        if skipped is not None and not any(fnmatch.fnmatchcase(test, pattern) for pattern in patterns):
            surprises.append(f"{test}: {skipped.get('message')}")
    if surprises:
        sys.exit("skipped without being on .ci/allowed-skips:\n  " + "\n  ".join(surprises))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
