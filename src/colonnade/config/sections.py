"""What sections of a configuration are made of: frozen models, and values with units."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Self, get_args

import pydantic
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
)
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError
from pydantic_core.core_schema import ErrorType

from colonnade.channels import LONGEST
from colonnade.errors import ConfigurationError

__all__ = [
    "Bandwidth",
    "Chosen",
    "Count",
    "CountOrAuto",
    "Duration",
    "Name",
    "Number",
    "Seconds",
    "Section",
    "Share",
    "Texts",
    "near",
]

# Numbers with units

_QUANTITY = re.compile(r"\s*([0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z/]*)\s*")


def _quantity(**units: float) -> Any:
    """Return the type of a number that may be written with a unit, such as ``300 Mbit/s``."""

    def read(value: Any) -> Any:
        value = _scientific(value)
        if not isinstance(value, str):
            return value
        match = _QUANTITY.fullmatch(value)
        if match is None or match[2] not in units:
            meant = "" if match is None else _rate_meant(float(match[1]), match[2], units)
            raise ValueError(f"{value!r} is not a number with a unit ({', '.join(units)}){meant}")
        return float(match[1]) * units[match[2]]

    return BeforeValidator(read, json_schema_input_type=float | str)


_RATE = re.compile(r"([kmg]?)(bits?|bytes?|b)(?:/s|/sec|ps)", re.IGNORECASE)


def _rate_meant(number: float, unit: str, units: Iterable[str]) -> str:
    """Return a clause about a rate that is written otherwise, such as 8 Mbps or 1 MB/s.

    >>> _rate_meant(8, "Mbps", ["Mbit/s"]), _rate_meant(8, "MB/s", ["Mbit/s"])
    ("; say '8 Mbit/s'", "; a byte has 8 bits: say '64 Mbit/s'")
    """
    match = _RATE.fullmatch(unit)
    if match is None:
        return ""
    known = {each.lower(): each for each in units}.get(f"{match[1]}bit/s".lower())
    if known is None:
        return ""
    if match[2] == "B" or match[2].lower().startswith("byte"):
        return f"; a byte has 8 bits: say '{8 * number:g} {known}'"
    return f"; say '{number:g} {known}'"


_SCIENTIFIC = re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+")


def _scientific(value: Any) -> Any:
    """Return the number that 1e-3 is, which YAML 1.1 takes for a text."""
    scientific = isinstance(value, str) and len(value) < 32 and _SCIENTIFIC.fullmatch(value)
    return float(value) if scientific else value


Number = Annotated[float, Field(strict=True), BeforeValidator(_scientific)]  # yes is not 1.0

_SLOWEST = 1000.0
_RATES = {"bit/s": 1.0, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9}


def _with_a_unit(rate: Any) -> Any:
    """Refuse a number that no line has, where a unit was left out."""
    if isinstance(rate, int | float) and 1 <= rate < _SLOWEST:
        raise ValueError(
            f"{rate:g} is bits per second, less than any line has; say in which unit it is, as "
            f"'{rate:g} Mbit/s'"
        )
    return rate


Bandwidth = Annotated[
    float, Field(ge=1, strict=True), _quantity(**_RATES), BeforeValidator(_with_a_unit)
]
_DURATIONS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}
Seconds = Annotated[float, Field(ge=0, le=LONGEST, strict=True), _quantity(**_DURATIONS)]
Duration = Annotated[float, Field(strict=True), _quantity(**_DURATIONS)]
"""Seconds of which the part itself says what is too many."""

Name = Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
Count = Annotated[int, Field(ge=1, strict=True)]  # strict: yes is not 1


_COUNT = pydantic.TypeAdapter(Count)


def _count_or_auto(value: Any, _: pydantic.ValidatorFunctionWrapHandler) -> Any:
    """Let the word pass; whatever else is said is to be a count, and is refused as one."""
    return value if value == "auto" else _COUNT.validate_python(value)


CountOrAuto = Annotated[Count | Literal["auto"], pydantic.WrapValidator(_count_or_auto)]


def _as_texts(values: Any) -> Any:
    """Return a list in which a whole number, or true and false, is the text that it is written as.

    Raises
    ------
    ValueError
        If a number has a fraction, which may have been written otherwise, as 2.50.
    """
    if not isinstance(values, list):
        return values
    for each in values:
        if isinstance(each, float):
            raise ValueError(f"{each} is a number here; write it in quotes, as the file does")
    return [str(each) if isinstance(each, int) else each for each in values]


Texts = Annotated[
    list[str], BeforeValidator(_as_texts, json_schema_input_type=list[str | int | bool])
]
"""What cells say, as a file writes it."""

Share = Annotated[Number, Field(ge=0, lt=1)]


def near(said: object, known: Iterable[str]) -> str:
    """Return a clause about which of the known words may be meant, if one may.

    >>> near("codex", ["codec", "bits"])
    "; 'codec' is near"
    """
    close = get_close_matches(str(said)[:64], list(known), n=1)
    return f"; {close[0]!r} is near" if close else ""


class Section(BaseModel):
    """A part of a configuration: keys it does not know are errors, and it does not change."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        validate_default=True,
        hide_input_in_errors=True,  # it may be a password that should stand elsewhere
    )

    @classmethod
    def _near(cls) -> list[str]:
        """Return the keys that may be meant by one that there is not."""
        return list(cls.model_fields)

    @classmethod
    def _meant(cls, said: str) -> str:
        """Return a clause about what may be meant by a key that there is not, if that is known."""
        return near(said, cls._near())

    @pydantic.model_validator(mode="wrap")
    @classmethod
    def _says_which_keys(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Add to the error of an unknown key which ones there are: only the section knows."""
        try:
            return handler(value)
        except ValidationError as error:
            found = error.errors(include_url=False)
            if all(each["type"] != "extra_forbidden" for each in found):
                raise
            keys = ", ".join(cls.model_fields)
            details = [
                _detail(each, f"unknown key; there are {keys}{cls._meant(str(each['loc'][-1]))}")
                for each in found
            ]
            raise ValidationError.from_exception_data(error.title, details) from None


class Chosen(Section):
    """A section that stands for a value, which it builds."""

    def build(self) -> Any:
        """Return the value."""
        raise AssertionError("every section that is chosen has its own")  # pragma: no cover

    @pydantic.model_validator(mode="after")
    def _accepted(self) -> Self:
        """Refuse here what the value itself refuses, so that it is said with the path."""
        try:
            self.build()
        except (ConfigurationError, ValueError) as error:
            raise ValueError(str(error)) from None
        return self


_STANDARD = get_args(ErrorType)


def _detail(error: ErrorDetails, unknown_key: str) -> InitErrorDetails:
    """Return what pydantic raises an error of a section again from."""
    name, message = error["type"], error["msg"]
    if name == "extra_forbidden":
        name, message = "unknown_key", unknown_key
    kind = name if name in _STANDARD else PydanticCustomError(name, message)
    detail = InitErrorDetails(type=kind, loc=error["loc"], input=error["input"])
    if "ctx" in error:
        detail["ctx"] = error["ctx"]
    return detail
