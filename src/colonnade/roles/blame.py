"""Whose numbers they were, where training left the finite ones.

Somebody may send numbers that are absurd and yet finite, as all are that a codec decodes. What is
computed of them elsewhere is then infinite, or no number, and a smaller learning rate would not
help. So the error says who sent the largest, where they are large. Before there is an error nothing
is looked at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from torch import Tensor

from colonnade.effects import Attempt, Effect, Work
from colonnade.errors import Diverged
from colonnade.roles.courses import Through

__all__ = ["Attributed", "attributed", "large_derivatives", "large_from", "largest_embedding"]

_LARGE = 1e6

T = TypeVar("T")


def largest_embedding(leaves: Mapping[str, Tensor]) -> str:
    """Say which party's embedding has the largest component, if that is large.

    Parameters
    ----------
    leaves
        By party, what it contributed, as of ``Fused``; parties of whom only a sum is known share
        one.

    Examples
    --------
    >>> import torch
    >>> largest_embedding({"bank": torch.tensor([-3e9]), "shop": torch.tensor([1.0])})
    "; the largest component that came is 3e+09, of 'bank': see first what it computes"
    >>> largest_embedding({"bank": torch.tensor([1.0])})
    ''
    """
    parties = defaultdict(list)
    for party, leaf in leaves.items():
        parties[id(leaf)].append(repr(party))
    sizes = {id(leaf): float(leaf.detach().abs().max()) for leaf in leaves.values()}
    most = max(sizes, key=sizes.__getitem__, default=None)
    if most is None or sizes[most] <= _LARGE:
        return ""
    names = parties[most]
    whose, what = names[0], "it computes"
    if len(names) > 1:
        whose = f"the sum of {', '.join(names[:-1])} and {names[-1]}"
        what = "they compute"
    return (
        f"; the largest component that came is {sizes[most]:.3g}, of {whose}: see first what {what}"
    )


def large_derivatives(sender: str, in_all: Tensor | None) -> str:
    """Say that somebody's last derivatives were large, if they were.

    >>> import torch
    >>> large_derivatives("insurer", torch.tensor([1.0, 2e7]))
    "; the last derivatives from 'insurer' come to 2e+07 in a component: see first what it computes"
    >>> large_derivatives("insurer", torch.tensor([1.0])), large_derivatives("insurer", None)
    ('', '')

    Parameters
    ----------
    sender
        Who sent them.
    in_all
        The magnitude of their sum over rows, for each component; None where none came.
    """
    most = 0.0 if in_all is None else float(in_all.max())
    if most <= _LARGE:  # and so not where it is no number
        return ""
    return (
        f"; the last derivatives from {sender!r} come to {most:.3g} in a component: see first what "
        "it computes"
    )


def large_from(sender: str, came: Mapping[str, Tensor]) -> str:
    """Say in what somebody's last messages had the largest number, if that is large.

    Parameters
    ----------
    sender
        Who sent them.
    came
        Each by what it is.

    Examples
    --------
    >>> import torch
    >>> large_from("insurer", {"top model": torch.tensor([3e9]), "embeddings": torch.ones(2)})
    "; the largest number in the top model from 'insurer' is 3e+09: see first what it sends"
    >>> large_from("insurer", {"top model": torch.empty(0)})
    ''
    """
    largest = {what: float(each.abs().max()) for what, each in came.items() if each.numel()}
    what = max(largest, key=largest.__getitem__, default=None)
    if what is None or largest[what] <= _LARGE:
        return ""
    return (
        f"; the largest number in the {what} from {sender!r} is {largest[what]:.3g}: see first "
        "what it sends"
    )


class attributed:  # noqa: N801 - a context, as those of contextlib
    """Let ``told`` add to the sentence of a ``Diverged``; it is called where there is one alone."""

    __slots__ = ("_told",)

    def __init__(self, told: Callable[[], str]) -> None:
        self._told = told

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, where: object) -> None:
        if isinstance(error, Diverged):
            raise Diverged(f"{error}{self._told()}") from error


class Attributed(Through[T]):
    """A course of effects of which all work is ``attributed``, wherever the driver does it.

    Parameters
    ----------
    course
        The effects, and what comes of them.
    told
        What is added.
    """

    def __init__(self, course: Awaitable[T], told: Callable[[], str]) -> None:
        super().__init__(course)
        self._told = told

    def _met(self, effect: Effect[Any]) -> Generator[Effect[Any], Any, Any]:
        if isinstance(effect, Work):
            effect = self._work(effect)
        elif isinstance(effect, Attempt):
            effect = replace(effect, work=self._work(effect.work))
        return (yield effect)

    def _work(self, work: Work[Any]) -> Work[Any]:
        def function() -> Any:
            with attributed(self._told):
                return work.function()

        return replace(work, function=function)
