"""What a partner's columns are worth: the run with everybody against the run without that partner.

The value of a partner is how much better the metric is with it, on the same test rows, from the
same seeds. One seed says little: a model differs from seed to seed by itself, so the values of
several are averaged and their standard error is given beside.
"""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from colonnade.annotated import check_kind
from colonnade.errors import ConfigurationError, PrivacyWarning
from colonnade.runs import Run
from colonnade.sent import bytes_sent
from colonnade.training import check_seed

__all__ = ["PartnerValue", "PartnerValues", "partner_values", "score"]


@dataclass(frozen=True)
class PartnerValue:
    """What one partner adds.

    Parameters
    ----------
    partner
        Its name.
    metric
        What is measured.
    together, without
        The metric with everybody and without the partner, a value for each seed.
    greater_is_better
        The metric's direction.
    bytes_sent
        What the partner's part in the training costs: training bytes of the run with everybody
        less those of the run without the partner.

    Examples
    --------
    >>> value = PartnerValue("bureau", "auc", (0.78, 0.77), (0.74, 0.74), True, 1000)
    >>> round(value.gain, 3), round(value.standard_error, 3)
    (0.035, 0.005)
    """

    partner: str
    metric: str
    together: tuple[float, ...]
    without: tuple[float, ...]
    greater_is_better: bool
    bytes_sent: int

    @property
    def gains(self) -> tuple[float, ...]:
        """By how much the partner betters the metric, for each seed; negative where it harms."""
        sign = 1 if self.greater_is_better else -1
        return tuple(sign * (a - b) for a, b in zip(self.together, self.without, strict=True))

    @property
    def gain(self) -> float:
        """The mean of the gains."""
        return statistics.fmean(self.gains)

    @property
    def standard_error(self) -> float:
        """The standard error of the gain; nan of a single seed."""
        if len(self.gains) < 2:
            return math.nan
        return statistics.stdev(self.gains) / math.sqrt(len(self.gains))

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "partner": self.partner,
            "metric": self.metric,
            "together": list(self.together),
            "without": list(self.without),
            "gain": self.gain,
            "standard_error": None if len(self.gains) < 2 else self.standard_error,
            "bytes_sent": self.bytes_sent,
        }


@dataclass(frozen=True)
class PartnerValues:
    """What each partner adds, and the runs that say so.

    Parameters
    ----------
    values
        In the order of the partners.
    runs
        The runs of the first seed: with everybody, and without each partner.
    """

    values: tuple[PartnerValue, ...]
    runs: Mapping[str, Run]


def partner_values(
    train: Callable[[str | None, int], Run],
    partners: Sequence[str],
    seeds: int | Iterable[int] = (0,),
) -> PartnerValues:
    """Train with everybody and without each partner in turn.

    Parameters
    ----------
    train
        Trains without the given partner (None for with everybody) from the given seed.
    partners
        Who is left out in turn.
    seeds
        Each is trained from, or the first so many from 0 on; three or more give a usable standard
        error.

    Raises
    ------
    ConfigurationError
        If there are not two partners or more, or no seed, or one that ``Training`` would not take.

    Warns
    -----
    PrivacyWarning
        If rows are protected by noise: the runs disclose them again and again.
    """
    if len(partners) < 2:
        raise ConfigurationError("with a single party there is nothing to train without it")
    seeds = _checked(seeds)
    runs = {
        (partner, seed): train(partner, seed) for seed in seeds for partner in (*partners, None)
    }  # first those of fewer, which may be refused before anything was trained
    first = runs[None, seeds[0]].summary
    if first.get("privacy_loss"):
        warnings.warn(
            f"{len(runs)} runs showed noisy embeddings of the same rows, and what they disclosed "
            "adds up: no budget and no summary counts more than its own run",
            PrivacyWarning,
            stacklevel=2,
        )

    def scores(partner: str | None) -> tuple[float, ...]:
        return tuple(score(runs[partner, seed]) for seed in seeds)

    def sent(partner: str | None) -> int:
        return bytes_sent(runs[partner, seeds[0]].summary)

    values = tuple(
        PartnerValue(
            partner,
            str(first["metric"]).removeprefix("validation_").removeprefix("test_"),
            scores(None),
            scores(partner),
            first["greater_is_better"],
            sent(None) - sent(partner),
        )
        for partner in partners
    )
    shown = {"everybody": runs[None, seeds[0]]}
    shown |= {f"without {partner}": runs[partner, seeds[0]] for partner in partners}
    return PartnerValues(values, shown)


def _checked(seeds: int | Iterable[int]) -> Sequence[int]:
    """Return the seeds to train from, each looked at before the first training."""
    given = [*seeds] if isinstance(seeds, Iterator | Set) else seeds
    check_kind("seeds", given, int | Collection[int])
    found = [*map(_seed, given)] if isinstance(given, Iterable) else range(given)
    if not found:
        raise ConfigurationError("partner values need a seed to train from")
    return found


def _seed(given: int) -> int:
    check_seed(given)
    return int(given)


def score(run: Run) -> float:
    """Return the deciding metric of a run: on the test rows if there are any; nan if it has none.

    Of a run without validation rows it is the last value, not the best: chosen by the test rows,
    the best would flatter.
    """
    metric = str(run.summary["metric"])
    name = metric.removeprefix("validation_").removeprefix("test_")
    test: Mapping[str, float | None] = run.summary["test"] or {}
    value = test.get(name, run.summary["final"])
    return math.nan if value is None else float(value)
