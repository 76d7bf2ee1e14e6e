"""What stands for a party that has left: a constant in place of its embeddings.

A model is trained over everybody's columns, and one of them may be gone when it is used. The others
can go on if something was declared to stand for it: zeros, or the mean of its embeddings, which the
party hands over as it leaves. The fusion is given that constant where the embedding was; for sums
it is added. What is lost by it is measured on rows whose labels are known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from colonnade.annotated import check_kind
from colonnade.drawing import drawing_by
from colonnade.errors import ConfigurationError, Diverged
from colonnade.links import Rows
from colonnade.metrics import Metric
from colonnade.models import Additive, Features, Fusion, Learner, take
from colonnade.streams import work_seed
from colonnade.telling import shown
from colonnade.uplinks.contract import Embedder

__all__ = [
    "NOBODY",
    "Fallback",
    "Fallbacks",
    "Lost",
    "check_fallbacks",
    "completed",
    "constants_of",
    "lost_by",
    "mean_embeddings",
]

Fallback: TypeAlias = Literal["zeros", "mean"]
"""What a constant is made of: nothing, or the mean of the party's embeddings of training rows."""

Fallbacks: TypeAlias = Mapping[str, Fallback]
"""By party that has left, what stands for it."""

NOBODY: Fallbacks = MappingProxyType({})
"""Nobody has left."""

_ENOUGH = 4096  # rows that a mean is taken of, at most


def check_fallbacks(without: Mapping[str, str], parties: Sequence[str]) -> None:
    """Raise ``ConfigurationError`` unless these stand for some of the parties, and not for all.

    >>> check_fallbacks({"shop": "zeros"}, ["bank", "shop"])
    >>> check_fallbacks({"shop": "ones"}, ["bank", "shop"])
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: what stands for 'shop' is 'zeros' or 'mean', not 'ones'
    """
    if not isinstance(without, Mapping):
        raise ConfigurationError(
            "without must be a dict of the parties that have left and what stands for each, such "
            f"as {{'shop': 'zeros'}}, not {shown(without)}"
        )
    for name, kind in without.items():
        if name not in parties:
            raise ConfigurationError(
                f"nothing can stand for {name!r}: the parties are {', '.join(parties)}"
            )
        check_kind(f"what stands for {name!r}", kind, Fallback)
    if parties and set(without) == set(parties):
        raise ConfigurationError(
            "every party has left: with nobody to ask, a model of the label holder's columns alone "
            "is better than this one with constants in all places"
        )


def constants_of(
    without: Fallbacks, widths: Mapping[str, int], means: Mapping[str, Tensor]
) -> dict[int, Tensor]:
    """Return, by the place of the party among all, the constant that stands for it, ``[E]``.

    Parameters
    ----------
    without
        What stands for whom.
    widths
        Of everybody's embeddings, in party order, the label holder's last.
    means
        The means that are known.

    Raises
    ------
    ConfigurationError
        If a mean is not known, or is of another width.
    """
    places = {name: place for place, name in enumerate(widths)}
    return {places[name]: _constant(name, kind, widths, means) for name, kind in without.items()}


def _constant(
    name: str, kind: Fallback, widths: Mapping[str, int], means: Mapping[str, Tensor]
) -> Tensor:
    if kind == "zeros":
        return torch.zeros(widths[name])
    if name not in means:
        raise ConfigurationError(
            f"the mean of {name!r} is not known: it is in mean.json in the folder of its trained "
            "part, for it to give; zeros need nothing of it"
        )
    mean = means[name]
    if mean.shape != (widths[name],):
        raise ConfigurationError(
            f"the mean of {name!r} has {mean.numel()} components, and its embeddings {widths[name]}"
        )
    return mean


@dataclass(frozen=True, eq=False)
class _Completed:
    """A fusion that has constants in the places of those that left.

    Parameters
    ----------
    fusion
        Of everybody.
    constants
        By place among all, ``[E]``.
    """

    fusion: Fusion
    constants: Mapping[int, Tensor]

    def __call__(self, embeddings: Sequence[Tensor]) -> Tensor:
        """Combine the embeddings that came and what stands for the others."""
        rows = len(embeddings[0])
        return self.fusion(
            [*self._in_places(embeddings, lambda constant: constant.expand(rows, -1))]
        )

    def width(self, widths: Sequence[int]) -> int:
        """Return the width of the result, where those that came have these widths."""
        return self.fusion.width([*self._in_places(widths, len)])

    def _in_places(self, given: Sequence[Any], made: Any) -> Iterator[Any]:
        rest = iter(given)
        for place in range(len(given) + len(self.constants)):
            constant = self.constants.get(place)
            yield next(rest) if constant is None else made(constant)


class _CompletedSum(_Completed):
    """The same of a fusion that needs no more than a sum."""

    fusion: Additive

    def of_total(self, total: Tensor, embeddings: int) -> Tensor:
        """Return the fusion of so many embeddings with this sum, and of the constants."""
        whole = total
        for _, constant in sorted(self.constants.items()):
            whole = whole + constant
        return self.fusion.of_total(whole, embeddings + len(self.constants))


def completed(fusion: Fusion, constants: Mapping[int, Tensor]) -> Fusion:
    """Return a fusion of those who are there, with constants in the places of the others.

    >>> from colonnade.models import Concat
    >>> completed(Concat(), {0: torch.zeros(2)})([torch.ones(1, 1)])
    tensor([[0., 0., 1.]])
    """
    if not constants:
        return fusion
    return (_CompletedSum if isinstance(fusion, Additive) else _Completed)(fusion, constants)


def mean_embeddings(
    of: Mapping[str, tuple[Learner, Features]],
    embedder: Callable[[Embedder], Embedder],
    rows: Rows,
    seed: int,
) -> dict[str, Tensor]:
    """Return the mean of each party's embeddings, ``[E]``, of up to 4,096 of these rows, evenly.

    One whose embeddings are no finite numbers has none. What a bottom model draws, it draws by the
    seed, and it is left as it was trained.

    Parameters
    ----------
    of
        By party, its bottom model, and its features of all rows.
    embedder
        What the uplink makes of a bottom model.
    rows
        Those that it was trained on.
    seed
        The run's.
    """
    chosen = np.ascontiguousarray(rows[:: math.ceil(len(rows) / _ENOUGH)])
    means = {}
    for name, (bottom, features) in of.items():
        drawing = drawing_by(work_seed(seed, name, "mean", 0, 0))
        with suppress(Diverged), torch.no_grad(), drawing:
            embeddings = embedder(_apart(bottom))(take(features, chosen), training=False)
            means[name] = embeddings.double().mean(dim=0).float().cpu()
    return means


def _apart(bottom: Learner) -> Learner:
    try:
        return bottom.apart()
    except Exception:  # a model may keep what it computed, which torch does not copy
        return bottom


@dataclass(frozen=True)
class Lost:
    """What is lost by constants in place of parties, on rows whose labels are known.

    Parameters
    ----------
    metric
        By what it is measured, as the run's summary calls it.
    everybody
        Its value with all parties, as the run's summary has it; None where nobody measured it.
    without
        Its value now.
    rows
        Of how many rows.
    """

    metric: str
    everybody: float | None
    without: float
    rows: int

    def __str__(self) -> str:
        told = f"{self.metric} is {self.without:.4f} on {self.rows:,} rows"
        return told if self.everybody is None else f"{told}, and was {self.everybody:.4f}"


def lost_by(
    summary: Mapping[str, Any],
    metrics: Sequence[Metric],
    scores: Tensor,
    truth: Tensor,
    *,
    best_counts: bool,
) -> Lost:
    """Return what is lost, where these are the scores of validation rows and their labels.

    Parameters
    ----------
    summary
        Of the run that trained the models.
    metrics
        Those of the run, the deciding one first.
    scores, truth
        The top model's outputs, and labels.
    best_counts
        Whether training ended with its best model (early stopping), and not with its last.
    """
    name = f"validation_{metrics[0].name}"
    is_told = summary["metric"] == name
    before = summary["best" if best_counts else "final"] if is_told else None
    return Lost(name, before, metrics[0](scores, truth), len(truth))
