"""What a configuration can name, as lists: for commands that show it to people and machines."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pydantic.fields import FieldInfo

from colonnade.config.choices import section, unusable, usable
from colonnade.config.docstrings import first_sentence
from colonnade.config.foreign import guarded
from colonnade.config.reference import default_text
from colonnade.config.registry import GROUPS, Part
from colonnade.errors import ConfigurationError
from colonnade.telling import plain

__all__ = ["Listed", "ListedPart", "listed"]


@dataclass(frozen=True)
class ListedPart:
    """A part that can be chosen.

    Parameters
    ----------
    name
        Its name in a configuration.
    about
        What it is, in a sentence.
    settings
        Its keys, each with its default, or without where it must be said.
    origin
        Who brought it.
    """

    name: str
    about: str
    settings: tuple[str, ...]
    origin: str


@dataclass(frozen=True)
class Listed:
    """A group of the registry.

    Parameters
    ----------
    group, title, about
        What the registry calls it, what people do, and what its parts are for.
    key
        The key of a section that names the part.
    parts
        What can be chosen.
    problems
        Why what packages offer cannot be, a sentence each.
    """

    group: str
    title: str
    about: str
    key: str
    parts: tuple[ListedPart, ...]
    problems: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def listed(*groups: str) -> list[Listed]:
    """Return what can be chosen from these groups; packages are imported for it.

    >>> listed("fusions")[0].parts[0]
    ListedPart(name='concat', about='z = (z_1, ..., z_M), side by side.', settings=(), \
origin='colonnade')
    """
    found = []
    for name in groups:
        group = GROUPS[name]
        parts, problems = [], unusable(group)
        for part in usable(group):
            try:
                parts.append(_listed(part))
            except ConfigurationError as error:
                problems.append(plain(str(error)))
        if parts or problems:
            found.append(
                Listed(
                    name,
                    name.replace("_", " "),
                    group.about,
                    group.key,
                    tuple(parts),
                    tuple(problems),
                )
            )
    return found


def _listed(part: Part) -> ListedPart:
    of = section(part)
    with guarded(f"the {part.group.one} {part.name!r} of {part.origin}", "cannot be described"):
        settings = tuple(
            _setting(key, field) for key, field in of.model_fields.items() if key != part.group.key
        )
        return ListedPart(part.name, first_sentence(part.make), settings, part.origin)


def _setting(key: str, field: FieldInfo) -> str:
    if field.is_required():
        return key
    return f"{key}: {default_text(field) or 'null'}"
