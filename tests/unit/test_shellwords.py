"""The lexer accepts only what it understands as the shell does, and names what it refuses."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agents.shellwords import Redirection, Unjudgeable, simple_commands


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("git status", ["git status"]),
        ("  git \t status  ", ["git status"]),
        ("git add . && git commit -m 'a message; with $signs'", ["git add .", "git commit -m a message; with $signs"]),
        ("a;b || c | d", ["a", "b", "c", "d"]),
        ("a\n\nb\n", ["a", "b"]),
        ("git log \\\n  --oneline", ["git log --oneline"]),
        ('echo "two words" three', ["echo two words three"]),
        ("echo 'a && b' \"c | d\" e\\;f", ["echo a && b c | d e;f"]),
        ("pytest -k 'not slow' 2>&1 | tail -5", ["pytest -k not slow", "tail -5"]),
        ("echo a#b", ["echo a#b"]),
        ("./run.sh --flag=x", ["./run.sh --flag=x"]),
        ('echo ""', ["echo "]),
        ("git log; ", ["git log"]),
    ],
)
def test_simple_commands_are_found(line: str, texts: list[str]) -> None:
    assert [command.text for command in simple_commands(line)] == texts


@pytest.mark.parametrize(
    "line",
    [
        "",
        "   ",
        "&& ls",
        "git log;; rm x",
        "ls &",
        "ls & rm -rf x",
        "ls |& cat",
        "echo $(rm x)",
        "echo `rm x`",
        'echo "$(rm x)"',
        'echo "`rm x`"',
        "echo $HOME",
        "$CMD x",
        "git <(rm x)",
        "(rm x)",
        "git x; (rm y)",
        "cat <<EOF\nx\nEOF",
        "cat <<< x",
        "{ rm x; }",
        "if true; then rm x; fi",
        "for x in a; do rm x; done",
        "X=1 git status",
        "'git' status",
        "g\\it status",
        '"git status"',
        "git* status",
        "{rm,-rf,x}",
        "~/bin/git x",
        "git 'unfinished",
        'git "unfinished',
        "git \\",
        "git status # rest",
        "git status\r\nrm x",
        "git\0status",
        "git status > 'a file'",
        "git status > *",
        "git status >",
        "git status >& file",
        "git status <> file",
        "f() { rm x; }",
        "coproc rm x",
        "time rm x",
    ],
)
def test_what_cannot_be_judged_is_refused(line: str) -> None:
    with pytest.raises(Unjudgeable):
        simple_commands(line)


def test_redirections_are_named_with_their_targets() -> None:
    (command,) = simple_commands("make 2>/dev/null >out.txt < in.txt -j 2 >>log")
    assert command.words == ("make", "-j", "2")
    assert command.redirections == (
        Redirection(">", "/dev/null"),
        Redirection(">", "out.txt"),
        Redirection("<", "in.txt"),
        Redirection(">>", "log"),
    )


@pytest.mark.parametrize("line", ["ls |", "ls &&", "ls ||", "ls | \n\n"])
def test_a_line_that_another_command_would_have_to_follow_is_not_judged(line: str) -> None:
    with pytest.raises(Unjudgeable, match="unfinished command"):
        simple_commands(line)


WORDS = st.lists(
    st.one_of(
        st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=8).map(lambda raw: "'" + raw.replace("'", "") + "'"),
        st.text("abc\\\"; &|<>()#'x", max_size=8).map(lambda raw: '"' + raw.replace('"', '\\"') + '"'),
        st.text("ab\\'\";&|<>()# ~{}*", max_size=6),
    ),
    max_size=5,
)


@given(WORDS)
def test_what_is_accepted_as_one_command_has_the_words_that_the_shell_gives_it(words: list[str]) -> None:
    line = "printf '%s\\0' first " + " ".join(words)
    try:
        commands = simple_commands(line)
    except Unjudgeable:
        return
    if len(commands) != 1 or commands[0].redirections or any(char in line for char in "*~{}"):
        return
    # No pathname, tilde or brace expansion is in it, so the shell's words must be ours exactly.
    shell = subprocess.run(["/bin/bash", "-c", line], capture_output=True, check=True)
    assert shell.stdout.decode().split("\0")[:-1] == list(commands[0].words[2:])
