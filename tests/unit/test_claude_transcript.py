"""When Claude Code's transcript proves that a turn ended, and when it does not; lines as CLI 2.1.332 writes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bot.agents.base import Ended, MessageDone, ToolStarted, Unknown
from bot.agents.claude import transcript

PROMPT = {"type": "user", "uuid": "p1", "promptSource": "sdk", "message": {"role": "user", "content": [{"type": "text", "text": "do"}]}}
NEXT = {"type": "user", "uuid": "p2", "promptSource": "sdk", "message": {"role": "user", "content": [{"type": "text", "text": "more"}]}}
HOOK = {"type": "system", "subtype": "stop_hook_summary", "isSidechain": False}
RESULT = {"type": "user", "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}]}}


def said(*content: object, stop: str | None = "end_turn", **more: object) -> dict[str, object]:
    message = {"role": "assistant", "model": "m", "stop_reason": stop, "stop_details": None, "content": list(content)}
    return {"type": "assistant", "isSidechain": False, "message": message, **more}


def words(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


CALL = said({"type": "tool_use", "id": "t1", "name": "mcp__nightporter__wait", "input": {"delay": "5m"}}, stop="tool_use")
END = said(words("done"))


def written(tmp_path: Path, *rows: object, tail: str = "") -> Path:
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + tail)
    return path


def test_a_turn_with_its_end_is_found_with_everything_it_said(tmp_path: Path) -> None:
    sidechain = said(words("a sub-agent's words"), isSidechain=True)
    path = written(tmp_path, PROMPT, said(words("first"), stop="tool_use"), CALL, sidechain, RESULT, END, HOOK, NEXT)
    assert transcript.outcome(path, "p1") == Ended(
        (MessageDone("b0", "first"), ToolStarted("t1", "wait", "", ours=True, subagent=False), MessageDone("b1", "done"))
    )


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [PROMPT],
        [PROMPT, END],
        [PROMPT, HOOK],
        [PROMPT, CALL, HOOK],
        [PROMPT, CALL, RESULT, HOOK],
        [PROMPT, END, NEXT, END, HOOK],
        [NEXT, END, HOOK],
        [PROMPT, END, HOOK, CALL],
        [PROMPT, END, HOOK, RESULT],
        [PROMPT, said(words("cut"), stop=None), HOOK],
        [PROMPT, {**END, "message": {**END["message"], "model": "<synthetic>"}}, HOOK],  # type: ignore[dict-item]
        [PROMPT, {**END, "isApiErrorMessage": True}, HOOK],
    ],
)
def test_anything_less_is_unknown(tmp_path: Path, rows: list[object]) -> None:
    assert transcript.outcome(written(tmp_path, *rows), "p1") == Unknown()


def test_a_message_that_was_cut_in_the_stream_is_no_end(tmp_path: Path) -> None:
    cut = said(words("cut off"))
    del cut["message"]["stop_details"]  # type: ignore[attr-defined]
    assert transcript.outcome(written(tmp_path, PROMPT, cut, HOOK), "p1") == Unknown()


def test_garbage_and_a_last_line_that_is_cut_harm_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, "a string", 5, PROMPT, END, HOOK, tail='{"type":"user","uu')
    assert transcript.outcome(path, "p1") == Ended((MessageDone("b0", "done"),))


def test_a_turn_with_a_line_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    path = written(tmp_path, PROMPT, "HERE", END, HOOK)
    path.write_text(path.read_text().replace('"HERE"', '{"type":"assistant","mess'))
    assert transcript.outcome(path, "p1") == Unknown()


def test_a_turn_from_before_a_compaction_is_found_in_the_raw_file(tmp_path: Path) -> None:
    boundary = {"type": "system", "subtype": "compact_boundary"}
    summary = {"type": "user", "isCompactSummary": True, "message": {"role": "user", "content": "a summary"}}
    path = written(tmp_path, PROMPT, END, HOOK, NEXT, boundary, summary, said(words("later")), HOOK)
    assert transcript.outcome(path, "p1") == Ended((MessageDone("b0", "done"),))
    assert transcript.outcome(path, "p2") == Ended((MessageDone("b0", "later"),))


def test_without_a_file_nothing_is_known(tmp_path: Path) -> None:
    assert transcript.outcome(None, "p1") == Unknown()
    assert transcript.find(tmp_path / "missing", "s") is None
    assert transcript.knowledge(None, "s") == "missing"


def test_the_cost_is_the_last_one_told(tmp_path: Path) -> None:
    costs = [{"type": "cost-state", "totalCostUSD": cost} for cost in (0.5, 0.75)]
    assert transcript.cost_usd(written(tmp_path, *costs, {"type": "cost-state"})) == 0.75
    assert transcript.cost_usd(None) == 0.0
