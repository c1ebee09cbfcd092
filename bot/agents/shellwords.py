"""Cuts a shell command line into simple commands, or says what in it cannot be judged.

Used to decide permissions, so it accepts only what it understands completely: words, quotes, the operators `;`, `&&`, `||`, `|`
and plain redirections (POSIX.1-2017, Shell Command Language, 2.2 and 2.3). Every expansion that could put other words into a
command is refused. The standard library's shlex is no help here: it does not tell a quoted operator from a real one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


class Unjudgeable(Exception):
    """The line holds something that is not judged; the text names it."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word with its quotes removed."""

    text: str
    #: Whether nothing in it was quoted or escaped.
    bare: bool


@dataclass(frozen=True, slots=True)
class Redirection:
    """`operator` and its target, e.g. `>>` and a file name. Copies of descriptors (`2>&1`) are left out."""

    operator: str
    target: str


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One simple command: its words, never empty, and its redirections to files."""

    words: tuple[str, ...]
    redirections: tuple[Redirection, ...]

    @property
    def text(self) -> str:
        """The words with single spaces between them: what patterns are compared with."""
        return " ".join(self.words)


@dataclass(frozen=True, slots=True)
class _Operator:
    text: str


#: Longest first. `&`, `<<`, `(`, `)` are known only to be refused by name.
_OPERATORS = ("&>>", "<<<", "&&", "||", ";;", "|&", "&>", ">>", ">&", "<<", "<&", "<>", ">|", "&", "|", ";", "<", ">", "(", ")", "\n")
_SEPARATORS = {"&&", "||", "|", ";", "\n"}
#: What another command has to follow.
_JOINS = {"&&", "||", "|"}
_REDIRECTIONS = {">", ">>", "<", ">|", "&>", "&>>"}
_COPIES = {">&", "<&"}

#: A command's name must be what is run: no blanks, no pattern, no tilde or brace that the shell would expand, no assignment.
_NAME = re.compile(r"[A-Za-z0-9_./+][A-Za-z0-9_./+:@%-]*")

#: An unquoted `{a,b}` or `{1..3}` becomes several words, so it hides which ones a command gets. `{}` and `@{1}` stay as they are.
_BRACES = re.compile(r"\{[^\s]*(?:,|\.\.)")

#: Words that make the following words a command of another kind.
_RESERVED = frozenset(
    [
        "if",
        "then",
        "else",
        "elif",
        "fi",
        "do",
        "done",
        "case",
        "esac",
        "while",
        "until",
        "for",
        "in",
        "function",
        "select",
        "time",
        "coproc",
        "exec",
        "eval",
        "source",
        ".",
        "command",
        "builtin",
    ]
)


def simple_commands(line: str) -> tuple[SimpleCommand, ...]:
    """The simple commands of a line, in order.

    Raises:
        Unjudgeable: it holds an expansion, a substitution, a background command, a compound command, a here-document, an
            unfinished quote or an unfinished command.
    """
    commands: list[SimpleCommand] = []
    current: list[Word | _Operator] = []
    goes_on = False
    for token in [*_tokens(line), _Operator("\n")]:
        if isinstance(token, _Operator) and token.text in _SEPARATORS:
            # A newline may be repeated and may follow an operator; anything else empty is refused by `_command`.
            if current or token.text != "\n":
                commands.append(_command(current))
                goes_on = token.text in _JOINS
            current = []
        else:
            current.append(token)
    if goes_on:
        raise Unjudgeable("an unfinished command")
    if not commands:
        raise Unjudgeable("an empty command")
    return tuple(commands)


def _command(tokens: list[Word | _Operator]) -> SimpleCommand:
    words: list[Word] = []
    redirections: list[Redirection] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        at += 1
        if isinstance(token, Word):
            words.append(token)
            continue
        target = tokens[at] if at < len(tokens) else None
        if token.text not in _REDIRECTIONS | _COPIES or not isinstance(target, Word):
            raise Unjudgeable(f"`{token.text}`")
        at += 1
        if token.text in _COPIES:
            if not re.fullmatch(r"[0-9]+|-", target.text):
                raise Unjudgeable(f"`{token.text}{target.text}`")
        elif not target.bare or re.search(r"[*?\[{~]", target.text):
            raise Unjudgeable("a redirection whose target is quoted or a pattern")
        else:
            redirections.append(Redirection(token.text, target.text))
    if not words:
        raise Unjudgeable("an empty command")
    name = words[0]
    if not name.bare or not _NAME.fullmatch(name.text) or name.text in _RESERVED:
        raise Unjudgeable(f"`{name.text}` as a command's name")
    return SimpleCommand(tuple(word.text for word in words), tuple(redirections))


def _tokens(line: str) -> list[Word | _Operator]:
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", line):
        raise Unjudgeable("a control character")
    tokens: list[Word | _Operator] = []
    at = 0
    while at < len(line):
        char = line[at]
        if char in " \t":
            at += 1
        elif line.startswith("\\\n", at):
            at += 2
        elif (operator := next((op for op in _OPERATORS if line.startswith(op, at)), None)) is not None:
            tokens.append(_Operator(operator))
            at += len(operator)
        elif char == "#":
            raise Unjudgeable("a comment")
        else:
            word, at = _word(line, at)
            # Digits directly before a redirection name its descriptor and are no argument.
            if not (word.bare and re.fullmatch(r"[0-9]{1,9}", word.text) and at < len(line) and line[at] in "<>"):
                tokens.append(word)
    return tokens


def _word(line: str, at: int) -> tuple[Word, int]:
    text: list[str] = []
    bare = True
    while at < len(line):
        char = line[at]
        if char in " \t" or char in "&|;<>()\n":
            break
        if char in "$`":
            raise Unjudgeable("`$` or a backquote outside single quotes")
        if char == "{" and _BRACES.match(line, at):
            raise Unjudgeable("braces that make several words")
        if char == "'":
            end = line.find("'", at + 1)
            if end < 0:
                raise Unjudgeable("a quote without its end")
            text.append(line[at + 1 : end])
            bare, at = False, end + 1
        elif char == '"':
            piece, at = _double_quoted(line, at + 1)
            text.append(piece)
            bare = False
        elif char == "\\":
            if at + 1 >= len(line):
                raise Unjudgeable("a backslash at the end")
            # An escaped newline joins the lines; any other escaped character stands for itself.
            text.append("" if line[at + 1] == "\n" else line[at + 1])
            bare, at = False, at + 2
        else:
            text.append(char)
            at += 1
    return Word("".join(text), bare), at


def _double_quoted(line: str, at: int) -> tuple[str, int]:
    text: list[str] = []
    while at < len(line):
        char = line[at]
        if char == '"':
            return "".join(text), at + 1
        if char in "$`":
            raise Unjudgeable("`$` or a backquote outside single quotes")
        if char == "\\" and at + 1 < len(line) and line[at + 1] in '$`"\\\n':
            text.append("" if line[at + 1] == "\n" else line[at + 1])
            at += 2
        else:
            text.append(char)
            at += 1
    raise Unjudgeable("a quote without its end")
