"""The parameters of a table transformer: what each may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from colonnade.annotated import is_whole
from colonnade.errors import ConfigurationError

__all__ = ["Missing", "Output", "Unseen", "check_parameters"]

Missing = Literal["median", "error"]
Unseen = Literal["warn", "zeros", "error"]
Output = Literal["tensor", "dict"]

_CHOICES = {
    "scale": ("standard", "unit", "none"),
    "missing": ("median", "error"),
    "unseen": ("warn", "zeros", "error"),
    "output": ("tensor", "dict"),
}
_RANGES = {"one_hot_up_to": (0, 2**20), "hash_buckets": (1, 2**20)}


def check_parameters(given: Any) -> None:
    """Raise ``ConfigurationError`` if a parameter, an attribute of what is given, cannot be used.

    Not when a transformer is made: scikit-learn changes parameters one after another, and wants
    them checked in ``fit``.
    """
    where: dict[str, str] = {}
    for parameter in ("numeric", "categorical", "ignore", "dates"):
        for name in _names(parameter, getattr(given, parameter)):
            if name in where:
                raise ConfigurationError(
                    f"column {name!r} is named in {where[name]} and in {parameter}; name it once"
                )
            where[name] = parameter
    for parameter, allowed in _CHOICES.items():
        value = getattr(given, parameter)
        if value not in allowed:
            raise ConfigurationError(
                f"{parameter} must be {' or '.join(map(repr, allowed))}, not {value!r}"
            )
    for parameter, (least, most) in _RANGES.items():
        value = getattr(given, parameter)
        if not is_whole(value) or not least <= value <= most:
            raise ConfigurationError(
                f"{parameter} must be a whole number from {least} to {most}, not {value!r}"
            )


def _names(parameter: str, names: Any) -> Sequence[str]:
    """Return the columns that a parameter names."""
    if names is None and parameter in ("numeric", "categorical"):
        return ()
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise ConfigurationError(f"{parameter} must be a list of columns, not {names!r}")
    for name in names:
        if not isinstance(name, str):
            raise ConfigurationError(
                f"{parameter} must be a list of names of columns, and {name!r} is none"
            )
    return names
