"""The configuration reference, written from the sections themselves, so that it cannot be wrong."""

from __future__ import annotations

import inspect
import math
import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from colonnade.config.run import RunConfig

__all__ = ["reference"]

_HEAD = """# Configuration

What a YAML file for `colonnade run` may say. Everything has a default but what is called required,
so a file says only what differs. A wrong key, type or value is an error that names the field.
`colonnade schema colonnade.schema.json` writes the JSON schema, by which editors complete and check
as you type; `--set training.epochs=3` overrides a field on the command line.

Quantities are numbers, or numbers with a unit: `300 Mbit/s`, `20 kbit/s`, `10 ms`, `2 min`.
"""

_TAGS = ("name", "codec", "fusion", "model", "storage")
_SHOWN = 4  # places of a section that may be in many


def reference() -> str:
    """Return the reference as Markdown.

    >>> reference().splitlines()[0]
    '# Configuration'
    """
    lines = [_HEAD, *_fields(RunConfig)]
    for section, places in _places().items():
        first, *others = [f"`{place}`" for place in sorted(places, key=lambda p: p.count("."))]
        lines += [f"## {first}\n"]
        if others:
            more = f" (and {len(others) - _SHOWN} more)" if len(others) > _SHOWN else ""
            lines += [f"Also {', '.join(others[:_SHOWN])}{more}.\n"]
        lines += [inspect.cleandoc(section.__doc__ or "").split("\n\n")[0] + "\n"]
        lines += _fields(section)
    return "\n".join(lines).rstrip() + "\n"


def _places() -> dict[type[BaseModel], list[str]]:
    """Return the sections below the whole, each with the paths to it."""
    places: dict[type[BaseModel], list[str]] = {}

    def visit(section: type[BaseModel], path: str) -> None:
        for name, field in section.model_fields.items():
            entries = get_origin(field.annotation) is dict
            for member in _members(field.annotation):
                tag = _tag(member, field.annotation)
                place = f"{path}.{name}".strip(".") + (".NAME" if entries else "")
                place += f" ({tag})" if tag else ""
                places.setdefault(member, []).append(place)
                visit(member, place)

    visit(RunConfig, "")
    return places


def _fields(section: type[BaseModel]) -> list[str]:
    """Return the table of a section's fields."""
    rows = [
        f"| `{name}` | {_shown(field.annotation)} | {_default(field)} | {field.description or ''} |"
        for name, field in section.model_fields.items()
    ]
    return ["| key | value | default | |", "|---|---|---|---|", *rows, ""]


def _members(annotation: Any) -> list[type[BaseModel]]:
    """Return the section types anywhere in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    found = []
    for part in get_args(annotation):
        for member in _members(part):
            if member not in found:
                found.append(member)
    return found


def _tag(member: type[BaseModel], chosen_from: Any) -> str:
    """Return what chooses this section among alternatives, as ``name: tables``; else nothing."""
    if len(_members(chosen_from)) == 1:
        return ""
    for name, field in member.model_fields.items():
        if name in _TAGS and get_origin(field.annotation) is Literal:
            return f"{name}: {' | '.join(map(str, get_args(field.annotation)))}"
    return ""


def _shown(annotation: Any) -> str:
    """Return a type in words."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "a section"
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _shown(arguments[0])
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin in (Union, types.UnionType):
        shown = dict.fromkeys(_shown(a) for a in arguments if a is not type(None))
        return " or ".join(shown)
    if origin is list:
        return f"a list: {_shown(arguments[0])}"
    if origin is tuple:
        return " and ".join(_shown(a) for a in arguments)
    if origin is dict:
        return f"by name: {_shown(arguments[1])}"
    words = {bool: "true, false", int: "whole number", float: "number", str: "text"}
    return words.get(annotation, "a path" if "Path" in str(annotation) else "text")


def _default(field: FieldInfo) -> str:
    value = field.default
    if value is PydanticUndefined:
        return "required"
    if value is None or (isinstance(value, BaseModel) and not value.model_fields_set):
        return ""
    if isinstance(value, BaseModel):
        return f"`{value.model_dump(mode='json', exclude_defaults=True) or ''}`"
    if isinstance(value, float) and math.isinf(value):
        return "no limit"
    if value in ([], {}):
        return ""
    return f"`{value}`"


if __name__ == "__main__":
    print(reference(), end="")
