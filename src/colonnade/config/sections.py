"""What sections of a configuration are made of: frozen models, and values with units.

Codecs, fusions and the like are their own configuration: the fields of the frozen class are the
keys of its section, and what the class refuses is refused at that section.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import reduce
from operator import or_
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_type_hints

import pydantic
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from colonnade.errors import ConfigurationError

__all__ = ["Bandwidth", "Chosen", "Count", "Name", "Seconds", "Section", "Share", "choice"]

# Numbers with units

_QUANTITY = re.compile(r"\s*([0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z/]*)\s*")


def _quantity(**units: float) -> Any:
    """Return the type of a number that may be written with a unit, such as ``300 Mbit/s``."""

    def read(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        match = _QUANTITY.fullmatch(value)
        if match is None or match[2] not in units:
            raise ValueError(f"{value!r} is not a number with a unit ({', '.join(units)})")
        return float(match[1]) * units[match[2]]

    return BeforeValidator(read, json_schema_input_type=float | str)


_RATES = {"bit/s": 1.0, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9}
Bandwidth = Annotated[float, Field(gt=0), _quantity(**_RATES)]
Seconds = Annotated[float, Field(ge=0, lt=math.inf), _quantity(us=1e-6, ms=1e-3, s=1.0, min=60.0)]
Name = Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
Count = Annotated[int, Field(ge=1, strict=True)]  # strict: yes is not 1


Share = Annotated[float, Field(ge=0, lt=1)]


class Section(BaseModel):
    """A part of a configuration: keys it does not know are errors, and it does not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


# Sections whose fields are those of a class


class Chosen(Section):
    """A section that stands for a value of a class of ours."""

    def build(self) -> Any:
        """Return the value."""
        raise AssertionError("every section made by choice has its own")  # pragma: no cover

    @pydantic.model_validator(mode="after")
    def _accepted(self) -> Chosen:
        try:
            self.build()
        except ConfigurationError as error:
            raise ValueError(str(error)) from None
        return self


_SECTIONS: dict[Any, Any] = {}
"""One section for a class with the same choices inside, wherever it may be chosen."""


def _built(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_built, value))
    return value.build() if isinstance(value, Chosen) else value


def _section(
    key: str, name: str, cls: Callable[..., Any], inner: Mapping[Any, tuple[Any, Any]]
) -> Any:
    """Return the section type of a frozen dataclass: its fields, and ``key: name``."""
    hints = get_type_hints(cls)
    choices = {f: inner[hint] for f, hint in hints.items() if hint in inner}
    chosen = tuple((f, id(annotation)) for f, (annotation, _) in choices.items())
    if (key, name, cls, chosen) in _SECTIONS:
        return _SECTIONS[key, name, cls, chosen]

    def build(self: Chosen) -> Any:
        names = [f.name for f in fields(cls)]  # type: ignore[arg-type]  # a dataclass
        return cls(**{name: _built(getattr(self, name)) for name in names})

    content: dict[str, Any] = {key: (Literal[name], name)}
    for f in fields(cls):  # type: ignore[arg-type]  # a dataclass
        if f.name in choices:
            content[f.name] = choices[f.name]
            continue
        hint = pydantic.StrictInt if hints[f.name] is int else hints[f.name]
        content[f.name] = (hint, ... if f.default is MISSING else f.default)
    section = pydantic.create_model(f"{name.title()}Section", __base__=Chosen, **content)
    section.__doc__ = (inspect.getdoc(cls) or "").split("\n\n")[0]
    section.build = build  # type: ignore[method-assign]  # each section builds its own class
    _SECTIONS[key, name, cls, chosen] = section
    return section


def choice(
    key: str,
    inner: Mapping[Any, tuple[Any, Any]] = MappingProxyType({}),
    **classes: Callable[..., Any],
) -> Any:
    """Return the type of a section that ``key`` tells from others; a bare name will do for one.

    ``inner`` says for the types of fields that are chosen themselves what they are chosen from, and
    by default; ... where they must be chosen.
    """
    sections = tuple(_section(key, name, cls, inner) for name, cls in classes.items())
    union: Any = reduce(or_, sections)
    named = BeforeValidator(
        lambda value: {key: value} if isinstance(value, str) else value,
        json_schema_input_type=union | Literal[tuple(classes)],
    )
    return Annotated[union, Field(discriminator=key), named]
