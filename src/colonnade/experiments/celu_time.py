"""CELU-VFL's Fig. 6, in kind: seconds to a target over 300 Mbit/s, against vanilla and FedBCD."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

import polars as pl

from colonnade.channels import Network
from colonnade.codecs import QSGD, Scalar
from colonnade.drivers import Simulate
from colonnade.exchanges import Asynchronous, Split
from colonnade.experiments.celu_prices import FASTER, FIRST, Machine
from colonnade.experiments.celu_setting import (
    BELOW,
    Setting,
    costs_of,
    in_digits,
    metric_of,
    paired,
    target_curve,
    targets_of,
    trials_sheet,
)
from colonnade.experiments.experiment import Experiment, Findings, Result, Results, Scale, Trial
from colonnade.experiments.measures import (
    accuracy_curve,
    best_cell,
    bytes_framed,
    cost,
    counted_cell,
    held_back,
    repetitions,
    rounds,
    seconds_along,
)
from colonnade.links import Direct, ErrorFeedback
from colonnade.local_updates import Consecutive, Workset
from colonnade.methods import Method, celu, fedbcd, svfl
from colonnade.reports import Chart, Sheet
from colonnade.runs import Run
from colonnade.uplinks import Plain
from colonnade.wire import Purpose

__all__ = ["CELU_TIME", "METHODS", "SETTINGS"]

SEEDS = 3
VANILLA, BURSTS = "vanilla", "CELU, bursts"
STEPS = (2, 3, 5, 8)

METHODS: Mapping[str, Method] = {
    VANILLA: svfl(),
    "vanilla, 8 bits": svfl(Scalar(8), Scalar(8)),
    **{f"FedBCD, Q = {steps}": fedbcd(steps) for steps in STEPS},
    "FedBCD, Q = 2, 8 bits": Method(
        "fedbcd",
        uplink=Plain(Direct(Scalar(8))),
        exchange=Split(Direct(Scalar(8))),
        local_updates=Consecutive(2),
    ),
    "CELU": celu(5, 5, 0.5),
    BURSTS: celu(5, 5, 0.5, bursts=True),
    "CELU, 8 bits": celu(5, 5, 0.5, Scalar(8), Scalar(8)),
    "CELU, error feedback": Method(
        "celu",
        uplink=Plain(ErrorFeedback(QSGD(127, "max"))),
        exchange=Asynchronous(Direct(Scalar(4))),
        local_updates=Workset(5, 5, 0.5),
    ),
}

# As in the paper, 4096 rows of 256 numbers are 4 MB, which take .11 seconds one way.
SETTINGS = (
    Setting("mnist", "party_2", 256, 4096, 40, 0.01),
    Setting("credit", "bank", 256, 4096, 30, 0.03),
    Setting("clicks", "counts", 256, 4096, 2, 0.01),
)

AT_FIRST = tuple(name for name in METHODS if name != BURSTS)
AGAIN = (VANILLA, "vanilla, 8 bits", "FedBCD, Q = 2, 8 bits", "CELU", BURSTS, "CELU, 8 bits")
"""What is run at a second machine's prices; bursts there alone, where waits are held back."""

PLACES = ((FIRST, SETTINGS, AT_FIRST), (FASTER, SETTINGS[:2], AGAIN))
"""At whose prices which methods train on which data."""


def _called(name: str, machine: Machine) -> str:
    return name if machine is FIRST else f"{name}, {machine.name}"


def _driver(setting: Setting, name: str, machine: Machine) -> Simulate:
    """Return the network of the paper, and what work costs; looking at a model takes no time."""
    return Simulate(
        Network.preset("wan-300mbit", "registry"),
        machine.costs(setting.name, name, METHODS[name]),
        untimed=frozenset({Purpose.EVALUATION}),
    )


def _trials(scale: Scale) -> list[Trial]:
    return [
        setting.trial(
            scale, (_called(name, machine),), seed, METHODS[name], _driver(setting, name, machine)
        )
        for machine, settings, names in PLACES
        for setting in settings
        for name in names
        for seed in scale.repetitions(SEEDS)
    ]


def _findings(results: Results) -> Findings:
    sheets, charts = [], []
    places = [(machine, setting) for machine, settings, _ in PLACES for setting in settings]
    for machine, setting in places:
        found = {name: results.of(setting.name, _called(name, machine)) for name in METHODS}
        found = {name: of_all for name, of_all in found.items() if of_all}
        targets = targets_of(found[VANILLA])
        sheets.append(_sheet(setting, machine, found, targets))
        if machine is not FIRST:
            continue
        metric = metric_of(found[VANILLA])
        curves = [accuracy_curve(name, each, seconds_along) for name, each in found.items()]
        curves.append(target_curve(targets, curves[0].x[-1]))
        charts.append(
            Chart(
                f"{setting.name}-time",
                f"{setting.name}: {metric} against time",
                "modelled time (s)",
                f"{metric} (%)",
                curves,
                log_x=True,
            )
        )
    names = [_called(name, machine) for machine, _, names in PLACES for name in names]
    each = trials_sheet(results, SETTINGS, names, VANILLA, _EACH)
    return Findings(sheets, charts, [_NOTE], each)


def _sheet(
    setting: Setting,
    machine: Machine,
    found: Mapping[str, Sequence[Result]],
    targets: Mapping[int, float],
) -> Sheet:
    vanilla, rows, spent = found[VANILLA], [], {}
    for name, each in found.items():
        spent[name], time = counted_cell(costs_of(each, targets, _seconds), _in_seconds)
        took = counted_cell(costs_of(each, targets, rounds), "{:.0f}".format)[1]
        sent = counted_cell(costs_of(each, targets, bytes_framed))[1]
        faster = "1.00 x" if name == VANILLA else _faster(vanilla, each, targets)
        rows.append((name, best_cell(each), time, faster, took, sent, *_local(each)))
    reached = [
        name
        for name in (f"FedBCD, Q = {steps}" for steps in STEPS)
        if not math.isnan(spent.get(name, math.nan))
    ]
    fastest = min(reached, key=lambda name: spent[name], default=None)
    beside = "no Q of FedBCD's brings all seeds there"
    if fastest is not None:
        beside = f"the best of FedBCD's is {fastest.removeprefix('FedBCD, ')}"
        if ratio := _faster(found[fastest], found.get("CELU", []), targets):
            beside += f", beside which CELU is {ratio}"
    for name in ("vanilla", "FedBCD, Q = 2"):
        if ratio := _faster(
            found.get(f"{name}, 8 bits", []), found.get("CELU, 8 bits", []), targets
        ):
            beside += f"; with 8 bits both ways CELU is {ratio} beside {name}"
    metric = metric_of(vanilla)
    return Sheet(
        f"{setting.name}: to vanilla's best {metric} less {100 * BELOW:.1f} points, 300 Mbit/s and "
        f"10 ms, at the prices of the {machine.name}",
        (
            *("method", "best, %", "time", "faster", "rounds", "sent"),
            *("local steps a round", "bubbles a round", "held back"),
        ),
        rows,
        note=f"Targets: each seed's own vanilla, {100 * fmean(targets.values()):.2f} % in the "
        f"mean; cells are of {repetitions(vanilla)}, with how many reached it, of how many were "
        f"run; faster is than vanilla with the same seeds. In this table {beside}. Sent: "
        "with envelopes. Steps and bubbles: of the organisation that has most; held back: the "
        "largest share of an organisation's time in which it waited although a batch was left, as "
        "R steps had followed the last exact one.",
    )


def _seconds(run: Run, place: int) -> float:
    return seconds_along(run)[place]


def _in_seconds(seconds: float) -> str:
    return f"{seconds:.1f} s"


def _faster(slow: Sequence[Result], fast: Sequence[Result], targets: Mapping[int, float]) -> str:
    """Return how many times as long the former took, in the mean of the seeds that both have."""
    (whole, _), (spent, _) = (
        counted_cell(costs_of(each, targets, _seconds))
        for each in (paired(slow, fast), paired(fast, slow))
    )
    return "" if math.isnan(whole) or math.isnan(spent) else f"{whole / spent:.2f} x"


def _local(found: Sequence[Result]) -> tuple[str, str, str]:
    """Return local steps and bubbles a round, and the share of time held back; of who has most."""
    taken, bubbles, shares = [], [], []
    for result in found:
        run = result.run
        taken.append(max(run.summary["local_updates"].values()) / run.summary["rounds"])
        told = run.reported("local_bubbles")
        if len(told):
            sums = told.group_by("organisation").agg(pl.sum("local_bubbles").cast(pl.Float64))
            bubbles.append(max(sums["local_bubbles"].to_list()) / run.summary["rounds"])
            shares.append(held_back(run))
    return (
        f"{fmean(taken):.1f}",
        f"{fmean(bubbles):.2f}" if bubbles else "",
        f"{fmean(shares):.1%}" if shares else "",
    )


_EACH: Mapping[str, Callable[[Run, float], str]] = {
    "seconds": lambda run, target: in_digits(cost(run, target, _seconds), ".3f"),
    "rounds": lambda run, target: in_digits(cost(run, target, rounds)),
    "bytes": lambda run, target: in_digits(cost(run, target, bytes_framed)),
    "seconds in all": lambda run, _: f"{seconds_along(run)[-1]:.3f}",
    "rounds in all": lambda run, _: str(run.summary["rounds"]),
}

_NOTE = (
    "In kind: the paper's figure is of Criteo, Avazu and a data set of Tencent's, on faster "
    "machines; the clicks here are synthetic. Learning rates are the best for vanilla (celu-rates) "
    "and the same for all. Time is on the virtual clock: a modelled network, work at the prices of "
    "one core (benchmarks/work.py), and evaluations that take none, so the same command gives the "
    "same table."
)

CELU_TIME = Experiment(
    name="celu-time",
    title="seconds to a target at 300 Mbit/s: vanilla, FedBCD, CELU, CELU compressed",
    source="Fu et al., CELU-VFL, Fig. 6",
    data=("mnist", "credit_default", "synthetic_clicks"),
    trials=_trials,
    findings=_findings,
    minutes=600,
)
