"""The script language of the scripted agent and the loopback model."""

from __future__ import annotations

from bot.agents import script
from bot.agents.base import ErrorKind


def statements(prompt: str) -> list[script.Statement]:
    return [line.statement for line in script.parse(prompt)]


def test_every_statement_is_read() -> None:
    prompt = 'say a: b\nthink c\nwait 20m the build\ncancel_wait\nsend d\nskip e\ntool Bash 3\nshell ls -l\ncall Read {"a": 1}\n'
    prompt += "agent say x\\nsay y\nsleep 0.5\nrecall\nfail auth\nlimit\nlimit 60\nhang\ndie"
    assert statements(prompt) == [
        script.Say("a: b"),
        script.Think("c"),
        script.CallOurs("wait", {"delay": "20m", "reason": "the build"}),
        script.CallOurs("cancel_wait"),
        script.CallOurs("send_message", {"text": "d"}),
        script.CallOurs("skip_reply", {"reason": "e"}),
        script.UseTool("Bash", 3.0),
        script.Shell("ls -l"),
        script.CallTool("Read", {"a": 1}),
        script.SubAgent("say x\nsay y"),
        script.Sleep(0.5),
        script.Recall(),
        script.Fail(ErrorKind.AUTH),
        script.Limit(None),
        script.Limit(60.0),
        script.Hang(),
        script.Die(),
    ]


def test_what_is_no_statement_is_ignored_beside_one() -> None:
    assert statements("[delivered] your reply\nAnn: say hi\nfail nonsense\ntool Bash soon\ncall X nonsense") == [script.Say("hi")]


def test_a_prompt_without_statements_is_echoed() -> None:
    assert statements("good morning\n\nhow are you?\n") == [script.Say("echo: how are you?")]


def test_together_marks_a_call_of_the_same_message() -> None:
    assert [line.together for line in script.parse("shell a\n+ shell b\nshell c")] == [False, True, False]
