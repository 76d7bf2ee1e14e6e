"""C-VFL's Tables 5 and D.1: what local steps save, in seconds and in bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from colonnade.codecs import Codec, Float, Lattice
from colonnade.experiments.cvfl_setting import Setting, compressed, trial
from colonnade.experiments.experiment import Experiment, Findings, Results, Scale, Trial
from colonnade.experiments.measures import (
    accuracy_chart,
    accuracy_curve,
    bytes_both,
    cost,
    cost_cell,
    mean_cell,
    rounds,
)
from colonnade.methods import cvfl
from colonnade.reports import Chart, Sheet
from colonnade.runs import Run

__all__ = ["CVFL_ALGORITHMS", "CVFL_LATENCY", "seconds"]

SETTING = Setting("mnist", 256, 470)
TARGET = 0.93
ROUNDS: Mapping[int, int] = {1: 4700, 10: 470, 25: 235}
"""How many rounds each Q is given: fewer with more local steps."""
LATENCIES = (1, 10, 50, 200)
STEP = 0.010
"""Seconds of a local step, in the paper's model."""


def seconds(rounds: float, steps: int, latency: float) -> float:
    """Return the paper's time of some rounds: rounds (Q 10 ms + t_c).

    Parameters
    ----------
    rounds
        How many.
    steps
        Q.
    latency
        t_c, of a round trip, in seconds.

    Examples
    --------
    >>> seconds(63139, steps=1, latency=0.001)  # the paper's first cell, 694.53 s
    694.529
    """
    return rounds * (steps * STEP + latency)


def _latency_trials(scale: Scale) -> list[Trial]:
    return [
        trial(SETTING, scale, (f"Q = {q}",), seed, compressed("lattice", 3, q), ROUNDS[q])
        for q in ROUNDS
        for seed in scale.repetitions(5)
    ]


def _latency_findings(results: Results) -> Findings:
    rows = []
    for latency in LATENCIES:
        cells = []
        for q in ROUNDS:
            spent = [cost(r.run, TARGET, rounds) for r in results.of(f"Q = {q}")]
            times = [None if n is None else seconds(n, q, latency / 1000) for n in spent]
            cells.append(mean_cell(times, lambda value: f"{value:.1f}")[1])
        rows.append((str(latency), *cells))
    sheet = Sheet(
        f"Seconds to {TARGET:.0%} on MNIST, lattice at b = 3",
        ("t_c, ms", *(f"Q = {q}" for q in ROUNDS)),
        rows,
        note="Rounds to the target, each of Q steps of 10 ms and a round trip of t_c: the paper's "
        "model of time, which is what the simulator shows for such a network.",
    )
    curves = [accuracy_curve(f"Q = {q}", results.of(f"Q = {q}"), _at_50_ms(q)) for q in ROUNDS]
    chart = Chart(
        "time", "t_c = 50 ms", "modelled time (s)", "test accuracy (%)", curves, log_x=True
    )
    return Findings([sheet], [chart])


def _at_50_ms(q: int) -> Callable[[Run], list[float]]:
    return lambda run: [seconds(n, q, 0.05) for n in run.history["round"].to_list()]


CVFL_LATENCY = Experiment(
    name="cvfl-latency",
    title="what local steps save where the network is slow",
    source="Castiglia et al., C-VFL, Table 5",
    data=("mnist",),
    trials=_latency_trials,
    findings=_latency_findings,
    minutes=30,
)

_CODECS: Mapping[str, Codec] = {"none, b = 32": Float(32), "lattice, b = 3": Lattice(3, -1.0, 1.0)}


def _algorithm_trials(scale: Scale) -> list[Trial]:
    trials = []
    for name, codec in _CODECS.items():
        for q in ROUNDS:
            kind, bits = ("lattice", 3) if "lattice" in name else ("none", 32)
            # Algorithm 2 sends derivatives instead of embeddings and the top model; exactly.
            method = cvfl(codec) if q == 1 else compressed(kind, bits, q)
            trials += [
                trial(SETTING, scale, (name, f"Q = {q}"), seed, method, ROUNDS[q])
                for seed in scale.repetitions(5)
            ]
    return trials


def _algorithm_findings(results: Results) -> Findings:
    rows = []
    for name in _CODECS:
        cells = []
        for q in ROUNDS:
            found = results.of(name, f"Q = {q}")
            cells.append(cost_cell(found, TARGET, bytes_both)[1])
        rows.append((name, *cells))
    sheet = Sheet(
        f"Bytes up and down to {TARGET:.0%} on MNIST",
        ("compressor", "Algorithm 2, Q = 1", "Algorithm 1, Q = 10", "Algorithm 1, Q = 25"),
        rows,
        note="Algorithm 2 sends exact derivatives down, Algorithm 1 everybody's embeddings and the "
        "top model.",
    )
    curves = {f"{name}, Q = {q}": results.of(name, f"Q = {q}") for name in _CODECS for q in ROUNDS}
    return Findings([sheet], [accuracy_chart("bytes", "Accuracy against bytes", curves)])


CVFL_ALGORITHMS = Experiment(
    name="cvfl-algorithms",
    title="Algorithm 2 with one step a round against Algorithm 1 with many",
    source="Castiglia et al., C-VFL, Table D.1",
    data=("mnist",),
    trials=_algorithm_trials,
    findings=_algorithm_findings,
    minutes=60,
)
