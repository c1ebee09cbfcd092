from __future__ import annotations

import io
import json
import logging
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import structlog

from bot.logs import LogFormat, configure_logs

SECRET = "MTk4NjIy.Cl2FMQ.secret-of-the-bot"


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, hook = root.handlers[:], root.level, sys.excepthook
    yield
    root.handlers[:], root.level, sys.excepthook = handlers, level, hook
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()


@dataclass
class Odd:
    token: str


def connect() -> None:
    raise RuntimeError(f"connecting with {SECRET}")


def captured(log_format: LogFormat, level: str = "info") -> io.StringIO:
    stream = io.StringIO()
    configure_logs(log_format, level, [SECRET], stream)
    return stream


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_no_field_of_any_kind_shows_a_secret(log_format: LogFormat) -> None:
    stream = captured(log_format)
    log = structlog.get_logger("bot.test")
    log.info(
        SECRET,
        text=f"x{SECRET}",
        nested={"deep": [SECRET, {SECRET: (SECRET,)}]},
        raw=SECRET.encode(),
        odd=Odd(SECRET),
        error=ValueError(SECRET),
        **{SECRET: 1},
    )
    logging.getLogger("discord.http").warning("POST %s failed: %r", f"https://host/{SECRET}", {"authorization": SECRET})
    assert SECRET not in stream.getvalue()
    assert stream.getvalue().count("[secret]") >= 10


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_no_traceback_shows_a_secret(log_format: LogFormat) -> None:
    stream = captured(log_format)
    try:
        connect()
    except RuntimeError:
        structlog.get_logger("bot.test").exception("it.failed")
        logging.getLogger("asyncio").exception("a task failed")
    text = stream.getvalue()
    assert SECRET not in text
    assert text.count("RuntimeError: connecting with [secret]") == 2


def test_a_crash_is_logged_without_the_secret_in_it() -> None:
    stream = captured("json")
    error = RuntimeError(SECRET)
    sys.excepthook(RuntimeError, error, None)
    line = json.loads(stream.getvalue())
    assert line["event"] == "process.crashed"
    assert line["level"] == "critical"
    assert SECRET not in stream.getvalue()


def test_each_line_of_json_is_one_object_with_event_level_logger_and_time() -> None:
    stream = captured("json")
    structlog.get_logger("bot.runtime").info("run.claimed", run=7, fence=2)
    logging.getLogger("discord.gateway").info("Shard ID %s has connected", None)
    ours, theirs = (json.loads(line) for line in stream.getvalue().splitlines())
    assert {"event": "run.claimed", "run": 7, "fence": 2, "level": "info", "logger": "bot.runtime"}.items() <= ours.items()
    assert ours["timestamp"].endswith("Z")
    assert theirs["event"] == "Shard ID None has connected"
    assert theirs["logger"] == "discord.gateway"


def test_the_level_holds_for_us_and_for_the_libraries() -> None:
    stream = captured("json", "warning")
    structlog.get_logger("bot").info("too.quiet")
    logging.getLogger("discord").info("too quiet")
    structlog.get_logger("bot").warning("loud.enough")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["loud.enough"]


def test_routine_of_the_libraries_is_heard_only_when_debugging() -> None:
    stream = captured("json")
    logging.getLogger("apscheduler.scheduler").info("Added job")
    assert stream.getvalue() == ""
    stream = captured("json", "debug")
    logging.getLogger("apscheduler.scheduler").info("Added job")
    assert "Added job" in stream.getvalue()


def test_warnings_of_python_are_log_lines() -> None:
    stream = captured("json")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=False)
        logging.captureWarnings(capture=True)
        warnings.warn("old habit", DeprecationWarning, stacklevel=1)
    assert "old habit" in stream.getvalue()


def test_configuring_twice_does_not_write_twice() -> None:
    stream = captured("json")
    configure_logs("json", "info", [], stream)
    structlog.get_logger("bot").info("once")
    assert len(stream.getvalue().splitlines()) == 1
