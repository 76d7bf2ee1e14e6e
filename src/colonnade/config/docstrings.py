"""What a docstring in numpy's form says: in a line what something is, and what its arguments are.

A section of a configuration is described by the docstring of what it makes, so that the words are
written once.
"""

from __future__ import annotations

import inspect
import re
from itertools import pairwise
from typing import Any

__all__ = ["about_parameters", "first_sentence", "summary"]

_UNDERLINE = re.compile(r"-{3,}\s*")


def summary(described: Any) -> str:
    """Return the first paragraph of an object's docstring, on one line.

    >>> summary(summary)
    "Return the first paragraph of an object's docstring, on one line."
    """
    return " ".join((inspect.getdoc(described) or "").split("\n\n")[0].split())


def first_sentence(described: Any) -> str:
    """Return the summary's first sentence, for lists; code in it without its marks."""
    return re.split(r"(?<=\w\w\.)\s", summary(described))[0].replace("``", "")


def about_parameters(described: Any) -> dict[str, str]:
    """Return what the section "Parameters" of an object's docstring says of each parameter.

    >>> def draw(low, high, seed):
    ...     '''Draw a number.
    ...
    ...     Parameters
    ...     ----------
    ...     low, high
    ...         The range.
    ...     seed : int
    ...         Decides
    ...         which.
    ...
    ...     Returns
    ...     -------
    ...     The number.
    ...     '''
    >>> about_parameters(draw)
    {'low': 'The range.', 'high': 'The range.', 'seed': 'Decides which.'}
    """
    lines = (inspect.getdoc(described) or "").splitlines()
    found: dict[str, list[str]] = {}
    names: list[str] = []
    inside = False
    for line, following in pairwise([*lines, ""]):
        if _UNDERLINE.fullmatch(following):
            inside = line.strip() == "Parameters"
        elif not inside or _UNDERLINE.fullmatch(line):
            continue
        elif line.startswith(" "):
            for name in names:
                found[name].append(line.strip())
        elif line:
            names = [name.strip(" *") for name in line.partition(":")[0].split(",")]
            found |= {name: [] for name in names}
    return {name: " ".join(words) for name, words in found.items()}
