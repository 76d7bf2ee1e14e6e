"""The configuration reference, written from the sections themselves, so that it cannot be wrong."""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from colonnade.config.choices import Choice, composition, section
from colonnade.config.registry import GROUPS, Group, Part
from colonnade.config.run import RunConfig
from colonnade.config.sections import Chosen

__all__ = ["default_text", "keys_of", "reference"]

_HEAD = """# Configuration

What a YAML file for `colonnade run` may say. Everything has a default but what is called required,
so a file says only what differs. A wrong key, type or value is an error that names the field.
`colonnade schema colonnade.schema.json` writes the JSON schema, by which editors complete and check
as you type; `--set training.epochs=3` overrides a field on the command line. A file may have 2^20
characters, 32 levels and 100,000 values, keys and what aliases stand for included.

Quantities are numbers, or numbers with a unit: `300 Mbit/s`, `20 kbit/s`, `10 ms`, `2 min`.

Where the value is a codec, a method, a model or another part, it is a section that names the part
and its settings, `{codec: scalar, bits: 4}`. A bare name, `float`, is the part with its defaults.
What there is besides, from packages that are installed, is listed by `colonnade codecs`, `methods`,
`models` and `parts`; how to add to it is in [Your own parts](extending.md).
"""

_COMPOSITION = """### `method` of your own parts

A method that has a key `uplink`, `exchange`, `local_updates` or another one that only a composition
has is composed of parts. What cannot work together is refused, as in Python.

```yaml
method:
  name: both-ways
  fusion: mean
  uplink: {uplink: plain, link: {link: error_feedback, codec: {codec: top_k, ratio: 0.05}}}
  exchange: {exchange: split, downlink: {codec: scalar, bits: 4}}
  local_updates: {local_updates: replayed, steps: 4}
```
"""

_MORE = {
    "methods": "A key that is `null` and that the method does not have counts as left out, so that "
    "`--set method.name=fedbcd --set method.embedding=null` turns one method into another.\n",
    "links": "A codec in place of a link is a direct link through it.\n",
}

_TAGS = ("name",)
_SHOWN = 4  # places of a section that may be in many


def reference() -> str:
    """Return the reference as Markdown.

    >>> reference().splitlines()[0]
    '# Configuration'
    """
    lines = [_HEAD, *keys_of(RunConfig)]
    for place_of, places in _places().items():
        first, *others = [f"`{place}`" for place in sorted(places, key=lambda p: p.count("."))]
        lines += [f"## {first}\n"]
        if others:
            more = f" (and {len(others) - _SHOWN} more)" if len(others) > _SHOWN else ""
            lines += [f"Also {', '.join(others[:_SHOWN])}{more}.\n"]
        lines += [_summary(place_of) + "\n"]
        lines += keys_of(place_of)
    for group in GROUPS.values():
        lines += _group(group)
    return "\n".join(lines).rstrip() + "\n"


def _group(group: Group) -> list[str]:
    """Return the chapter on a group: what Colonnade has of it, whatever packages are there."""
    if not group.ours:
        return []
    about = f"{group.about[:1].upper()}{group.about[1:]}."
    lines = [f"## {_title(group)}\n", f"{about}\n"]
    if group.default is not None:
        lines[-1] = f"{about} Without the key `{group.key}` it is `{group.default}`.\n"
    lines += [_MORE[group.name]] if group.name in _MORE else []
    for name, make in group.ours.items():
        of = section(Part(group, name, make))
        lines += [
            f"### `{group.key}: {name}`\n",
            " ".join(_summary(of).split()) + "\n",
            *keys_of(of),
        ]
    return lines + ([_COMPOSITION, *keys_of(composition())] if group.name == "methods" else [])


def _title(group: Group) -> str:
    return group.name.replace("_", " ").capitalize()


def _summary(of: type[BaseModel]) -> str:
    return inspect.cleandoc(of.__doc__ or "").split("\n\n")[0]


def _places() -> dict[type[BaseModel], list[str]]:
    """Return the sections below the whole, each with the paths to it."""
    places: dict[type[BaseModel], list[str]] = {}

    def visit(of: type[BaseModel], path: str) -> None:
        for name, field in of.model_fields.items():
            entries = get_origin(field.annotation) is dict
            for member in _members(field.annotation):
                tag = _tag(member, field.annotation)
                place = f"{path}.{name}".strip(".") + (".NAME" if entries else "")
                place += f" ({tag})" if tag else ""
                places.setdefault(member, []).append(place)
                visit(member, place)

    visit(RunConfig, "")
    return places


def keys_of(of: type[BaseModel]) -> list[str]:
    """Return the table of a section's keys, as lines of Markdown."""
    rows = [
        f"| `{name}` | {_shown(field.annotation, field.metadata)} | {_default(field)} "
        f"| {_about(field).replace('|', chr(92) + '|')} |"
        for name, field in of.model_fields.items()
    ]
    return ["| key | value | default | |", "|---|---|---|---|", *rows, ""]


def _about(field: FieldInfo) -> str:
    """Return what a field is for; a section says that itself."""
    members = _members(field.annotation)
    return field.description or (_summary(members[0]) if len(members) == 1 else "")


def _members(annotation: Any) -> list[type[BaseModel]]:
    """Return the section types anywhere in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [] if issubclass(annotation, Chosen) else [annotation]
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


def _shown(annotation: Any, metadata: Sequence[Any] = ()) -> str:
    """Return a type in words."""
    for each in metadata:
        if isinstance(each, Choice):
            article = "an" if each.group.one[0] in "aeiou" else "a"
            return f"[{article} {each.group.one}](#{_title(each.group).lower().replace(' ', '-')})"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "a section"
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _shown(arguments[0], annotation.__metadata__)
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin in (Union, types.UnionType):
        shown = dict.fromkeys(_shown(a) for a in arguments if a is not type(None))
        return " or ".join(shown)
    if origin is list or (origin is tuple and arguments[-1] is ...):
        return f"a list: {_shown(arguments[0])}"
    if origin is tuple:
        return " and ".join(_shown(a) for a in arguments)
    if origin in (dict, Mapping):
        return f"by name: {_shown(arguments[1])}"
    words = {bool: "true, false", int: "whole number", float: "number", str: "text"}
    return words.get(annotation, "a path" if "Path" in str(annotation) else "text")


def _default(field: FieldInfo) -> str:
    value = field.default
    if value is PydanticUndefined:
        return "required"
    if isinstance(value, Chosen):
        return f"`{_written(value)}`"
    if value is None or (isinstance(value, BaseModel) and not value.model_fields_set):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, BaseModel):
        return f"`{value.model_dump(mode='json', exclude_defaults=True) or ''}`"
    if isinstance(value, float) and math.isinf(value):
        return "no limit"
    if value in ([], {}):
        return ""
    return f"`{value}`"


def default_text(field: FieldInfo) -> str:
    """Return a default as a file says it; nothing for null."""
    return "[]" if field.default == [] else _default(field).strip("`")


def _written(value: Chosen) -> str:
    """Return what a section is written as: its name, where everything else is as by default."""
    key, name = next(iter(value.model_dump(mode="json").items()))
    more = value.model_dump(mode="json", exclude_defaults=True)
    return str(name) if not more else str({key: name} | more)


if __name__ == "__main__":
    print(reference(), end="")
