"""Turns what pydantic finds wrong into one sentence that names the key as it was written, and the mend."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from bot.settings_tree import ENV_PREFIX, Tree

_Location = tuple[int | str, ...]


def explain(error: ValidationError, model: type[BaseModel], tree: Tree) -> str:
    """The first problem as a sentence, and how many more there are. Never shows a value that pydantic holds back."""
    problems = error.errors(include_url=False, include_input=False)
    # A misspelt key is often also a missing one: the misspelling is the cause.
    first = next((problem for problem in problems if problem["type"] == "extra_forbidden"), problems[0])
    sentence = _sentence(first, model, tree)
    more = len(problems) - 1
    return sentence if not more else f"{sentence} (and {more} more problem{'s' if more > 1 else ''})"


def _sentence(problem: ErrorDetails, model: type[BaseModel], tree: Tree) -> str:
    location = problem["loc"]
    name = _written_name(location, tree)
    match problem["type"]:
        case "extra_forbidden":
            return f"{name}: there is no such key; {_nearest(location, model)}"
        case "missing":
            return f"{name} is missing: add it"
        case "model_type" | "model_attributes_type":
            return f"{name}: must be a section (a table) with keys of its own"
        case "value_error":
            message = problem["msg"].removeprefix("Value error, ")
            return f"{name}: {message}" if location else message
        case _:
            return f"{name}: {problem['msg'].replace('Input should', 'should', 1)}"


def _dotted(location: _Location) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _written_name(location: _Location, tree: Tree) -> str:
    """The variable that the value came from, or the key in the file."""
    names = [str(part) for part in location]
    for length in range(len(names), 0, -1):
        variable = ENV_PREFIX + "__".join(names[:length]).upper()
        if variable in tree.variables:
            return variable if length == len(names) else f"{variable} ({_dotted(location)})"
        if length == len(names):
            below = sorted(name for name in tree.variables if name.startswith(variable + "__"))
            if below:
                return below[0]
    return _dotted(location)


def _nearest(location: _Location, model: type[BaseModel]) -> str:
    """The right name that is closest: in the same section first, then the same key in another one."""
    wrong = str(location[-1])
    here = _model_at(location[:-1], model)
    siblings = [_key(name, here) for name in here.model_fields] if here else []
    close = difflib.get_close_matches(wrong, siblings, n=1, cutoff=0.6)
    if close:
        return f"did you mean {_dotted((*location[:-1], close[0]))}?"
    elsewhere = [key for key in _all_keys(model, "") if key.rpartition(".")[2] == wrong]
    if elsewhere:
        return f"did you mean {elsewhere[0]}?"
    nearest = difflib.get_close_matches(wrong, siblings, n=1, cutoff=0.0)
    known = f"the nearest is {nearest[0]}; known here: {', '.join(siblings)}" if nearest else f"known here: {', '.join(siblings)}"
    return f"remove it ({known})"


def _key(field: str, model: type[BaseModel]) -> str:
    return model.model_fields[field].alias or field


def _model_at(location: _Location, model: type[BaseModel]) -> type[BaseModel] | None:
    here: type[BaseModel] | None = model
    for part in location:
        if isinstance(part, int):
            continue
        field = next((f for name, f in here.model_fields.items() if _key(name, here) == part), None) if here else None
        here = _model_in(field.annotation) if field else None
    return here


def _model_in(annotation: Any) -> type[BaseModel] | None:  # noqa: ANN401 - annotations have no common type
    """The section behind an annotation: itself, or what a tuple or an optional holds."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for argument in get_args(annotation) if (found := _model_in(argument))), None)


def _all_keys(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        key = prefix + _key(name, model)
        yield key
        section = _model_in(field.annotation)
        if section:
            yield from _all_keys(section, f"{key}.")
