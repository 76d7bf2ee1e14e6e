"""What a run's label holder tells of it: history, others' reports, and the summary."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import polars as pl
import torch

from colonnade import __version__
from colonnade.agreement import Agreement
from colonnade.channels import Network
from colonnade.clocks import NOT_NOTED, Clock, several
from colonnade.disclosures import (
    Disclosure,
    privacy_statement,
    privacy_warnings,
    promise_warnings,
)
from colonnade.drivers import RunRecord
from colonnade.effects import Role
from colonnade.layout import Layout
from colonnade.metrics import Metric
from colonnade.networks_told import network_told
from colonnade.summaries import (
    history_frame,
    others_history_frame,
    rounding_errors,
    summarise,
)
from colonnade.uplinks.account import most_told

__all__ = ["VERSIONS", "Circumstances", "Told", "clock_of", "run_told"]

VERSIONS = {"colonnade": __version__, "torch": torch.__version__}
"""What a run is made with, as its account tells."""

_ALIGNED_OPENLY = "rows were aligned before training; not protected here"

_UNREPEATABLE = (
    "in this method time decides what is learned, and time was measured: another run, or this one "
    "resumed, ends with other bits; modelled costs on a virtual clock repeat, and so does a Replay"
)


_SEVERAL_CLOCKS = (
    "the seconds of this run came about in more than one way ({}), and together they are the time "
    "of none"
)


@dataclass(frozen=True)
class Circumstances:
    """What is told of a run besides what happened in it.

    Parameters
    ----------
    devices
        Where each organisation's models compute, in words.
    people
        Who was left out before training, where that is known.
    warnings
        What should be known of data and models.
    aligned
        How rows came to be about the same people, as the privacy statement says it.
    classes
        What each class stands for; None of numbers.
    clocks
        How seconds came about, from the first round on; by default all by the driver.
    """

    devices: Mapping[str, str]
    people: Mapping[str, Any] | None = None
    warnings: Sequence[str] = ()
    aligned: str = _ALIGNED_OPENLY
    classes: Sequence[Any] | None = None
    clocks: Sequence[Clock] = ()


class HowRun(Protocol):
    """How roles were run: what is told of a ``Driver``."""

    @property
    def label(self) -> str:
        """The name that summaries use."""
        ...

    @property
    def clock(self) -> Mapping[str, str]:
        """How seconds come about."""
        ...

    @property
    def network(self) -> Network | None:
        """The network that it models; None where messages travel as they do."""
        ...

    @property
    def repeats(self) -> bool:
        """Whether a run whose course depends on time repeats to the bit."""
        ...


class Told(NamedTuple):
    """What is told of a run."""

    history: pl.DataFrame
    others_history: pl.DataFrame
    summary: dict[str, Any]


def clock_of(driver: HowRun, layout: Layout, timing: str | None = None) -> Clock:
    """Return how a driver's seconds come about, as a checkpoint keeps it."""
    network = driver.network
    told = None if network is None else network_told(network, layout.parties, layout.label_holder)
    return Clock(driver.label, dict(driver.clock), told, timing)


def run_told(
    record: RunRecord,
    agreement: Agreement,
    holder: Role,
    metrics: Sequence[Metric],
    driver: HowRun,
    circumstances: Circumstances,
    parties: Sequence[Role] = (),
) -> Told:
    """Return what a run's label holder tells of it.

    Parameters
    ----------
    record
        What happened.
    agreement
        What all had agreed on.
    holder
        The label holder's role, as it ended.
    metrics
        What evaluations report, the deciding one first.
    driver
        How the roles were run.
    circumstances
        What else is known.
    parties
        The parties' roles, where they are here: of accounts of privacy the largest is told.
    """
    method, training, layout = agreement.method, agreement.training, agreement.layout
    name = layout.label_holder
    history, others = history_frame(record, name), others_history_frame(record, name)
    watched = "validation" if len(agreement.validation_rows) else "test"
    disclosures = method.disclosures(layout)
    clocks = circumstances.clocks or (clock_of(driver, layout),)
    drivers = several(clocks, [clock.driver for clock in clocks])
    # The label holder's account is told first: it counts where parties tell as much.
    loss = _spent([holder, *parties], "spent")
    of_labels = _spent([holder], "spent_of_labels")
    summary = summarise(
        record,
        history,
        name,
        method=method.name,
        metric=f"{watched}_{metrics[0].name}",
        greater_is_better=metrics[0].greater_is_better,
        clock=_clock_told(clocks),
        privacy=privacy_statement((*disclosures, Disclosure("alignment", circumstances.aligned))),
        late_is_lost=method.uplink.what_time_decides is None,
        warnings=[
            *privacy_warnings(disclosures),
            *promise_warnings(loss, of_labels),
            *circumstances.warnings,
            *agreement.notes(),
            *_uncounted(record),
            *(f"{what}; the ledger is what senders tell" for what in record.contradictions),
            *([_SEVERAL_CLOCKS.format(drivers)] if sum(c != NOT_NOTED for c in clocks) > 1 else []),
            *([_UNREPEATABLE] if method.timed and not driver.repeats else []),
        ],
        details={
            "parties": list(layout.widths),
            "label_holder": name,
            **rounding_errors(others),
            "rows_train": len(agreement.train_rows),
            "rows_validation": len(agreement.validation_rows),
            "rows_test": len(agreement.test_rows),
            "rows_digest": agreement.digest_of_rows,
            "people": None if circumstances.people is None else dict(circumstances.people),
            "classes": None if circumstances.classes is None else list(circumstances.classes),
            "epochs": training.epochs,
            "batch_size": training.batch_size,
            "stopped_early": record.completed and record.round < agreement.batches.rounds,
            "privacy_loss": loss,
            "privacy_loss_of_labels": of_labels,
            "seed": training.seed,
            "driver": drivers,
            "devices": dict(circumstances.devices),
            "network": next((dict(c.network) for c in clocks if c.network is not None), None),
            "versions": dict(VERSIONS),
        },
    )
    best_round: int | None = getattr(holder, "best_round", None)
    if best_round is not None:
        # The model that counts, which a min_delta may tell from the one with the best value.
        chosen = history.filter(pl.col("round") == best_round)
        value = chosen[summary["metric"]][0]
        best = value if value is not None and math.isfinite(value) else None
        summary |= {"best": best, "best_round": best_round}
    summary["kept_round"] = best_round
    return Told(history, others, summary)


def _clock_told(clocks: Sequence[Clock]) -> dict[str, str]:
    """Return how seconds came about, each part in words, which say from when on if it changed."""
    parts = dict.fromkeys(part for clock in clocks for part in clock.how)
    return {part: several(clocks, [c.how.get(part, "nothing") for c in clocks]) for part in parts}


def _spent(roles: Sequence[object], by: str) -> dict[str, Any] | None:
    """Return what accounts say was spent, of uplink or defence; None where none is kept."""
    asked = (getattr(role, by, None) for role in roles)
    return most_told([told() for told in asked if callable(told)]) or None


def _uncounted(record: RunRecord) -> list[str]:
    return [
        f"not all that {name} sent before a crash could be counted, as its file in departures/ was "
        "moved away or cut off: bytes_lost and bytes_framed may be too small"
        for name in record.uncounted
    ]
