"""Figures of what changed along training, and of what each run came to: lines and points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil, floor, log10

import plotly.graph_objects as go
import polars as pl

from colonnade.reports.groups import is_classifier
from colonnade.reports.palette import INK
from colonnade.reports.plots import (
    Figure,
    add_line,
    add_point,
    at_least,
    byte_unit,
    empty_plot,
    make_room,
    room_for_points,
    second_unit,
)
from colonnade.reports.words import is_score, quantity, words
from colonnade.runs import Run
from colonnade.sent import bytes_sent, sent_until
from colonnade.stragglers import LATE, MISSING

__all__ = [
    "against_bytes",
    "against_epochs",
    "against_epsilon",
    "against_time",
    "epsilon_by_round",
    "frontier",
    "late_by_round",
    "loss_by_epoch",
    "losses",
    "metrics_by_epoch",
    "missing_by_round",
    "staleness",
]

_LOSSES = ("train_loss", "validation_log_loss", "test_log_loss", "validation_loss")
_JUDGED = ("validation_", "test_")  # how columns of metrics begin


def metrics_by_epoch(run: Run) -> Figure | None:
    """Return the metric that decides, and those that share its axis."""
    decided = str(run.summary["metric"])
    others = [c for c in run.history.columns if c.startswith(_JUDGED) and c not in _LOSSES]
    columns = [decided] if decided in run.history.columns else []
    unit = _unit_of(decided)
    columns += [
        c
        for c in others
        # A single value, such as that of the test rows at the end, is a number and not a curve.
        if c != decided
        and _unit_of(c) == unit
        and (_points(run, c) > 1 or _points(run, decided) < 2)
    ]
    plot = empty_plot("epochs", unit if len(columns) > 1 else quantity(decided))
    for index, column in enumerate(columns):
        add_line(plot, words(column), run.history, "epoch", column, index)
    if not plot.data:
        return None
    _mark_best(plot, run)
    _whole_ticks(plot, run)
    return Figure("metric-epochs", "Metrics against epochs", plot)


def against_epochs(runs: Mapping[str, Run], order: Sequence[str]) -> Figure | None:
    """Return the deciding metric of each run against epochs."""
    figure = _curves("metric-epochs", "against epochs", runs, "epoch", 1, "epochs", order)
    if figure is not None:
        _whole_ticks(figure.plot, *runs.values())
    return figure


def against_bytes(runs: Mapping[str, Run], order: Sequence[str]) -> Figure | None:
    """Return the deciding metric of each run against what training sent until then."""
    most = max((bytes_sent(run.summary) for run in runs.values()), default=0)
    scale, unit = byte_unit(most)
    label = f"training bytes, up and down ({unit})"
    figure = _curves("metric-bytes", "against bytes", runs, "sent", scale, label, order)
    least = min((bytes_sent(run.summary) for run in runs.values()), default=0)
    if figure is not None and most > 20 * max(least, 1):
        figure.plot.update_xaxes(type="log", dtick=1)
    return figure


def against_time(runs: Mapping[str, Run], order: Sequence[str]) -> Figure | None:
    """Return the deciding metric of each run against seconds, of one kind of clock."""
    virtual = [name for name, run in runs.items() if run.summary["seconds_virtual"] is not None]
    # Modelled and measured seconds do not belong on one axis: the more frequent clock is shown.
    modelled = len(virtual) * 2 >= len(runs)
    shown = {name: run for name, run in runs.items() if (name in virtual) is modelled}
    longest = max((_last(run.history, "seconds") for run in shown.values()), default=0.0)
    scale, unit = second_unit(longest)
    clock = "modelled" if modelled else "wall"
    figure = _curves(
        "metric-time", "against time", shown, "seconds", scale, f"{clock} time ({unit})", order
    )
    if figure is None:
        return None
    notes = []
    if any(run.summary.get("seconds_evaluation") for run in shown.values()):
        notes.append("With the time that evaluations take.")
    if len(shown) < len(runs):
        left_out = ", ".join(name for name in runs if name not in shown)
        notes.append(f"Not shown, as their seconds are of another clock: {left_out}.")
    return replace(figure, note=" ".join(notes))


def _curves(
    key: str,
    against: str,
    runs: Mapping[str, Run],
    x: str,
    scale: float,
    label: str,
    order: Sequence[str],
) -> Figure | None:
    """Return the deciding metric of each run against a quantity."""
    metric = str(next(iter(runs.values())).summary["metric"])
    plot = empty_plot(label, quantity(metric))
    for name, run in runs.items():
        own = str(run.summary["metric"])
        history = _with_sent(run.history)
        if x in history.columns:
            history = history.with_columns(pl.col(x) / scale)
            add_line(plot, name, history, x, own, order.index(name))
    if not plot.data:
        return None
    if len(runs) == 1:
        plot.update_layout(showlegend=False)
    values = [value for trace in plot.data for value in trace.y]
    if min(values) == max(values):
        at_least(plot, values, 0.1)
    make_room(plot)
    return Figure(key, f"{_capital(words(metric))} {against}", plot)


def losses(run: Run) -> Figure | None:
    """Return the losses of a run."""
    plot = empty_plot("epochs", "loss (nats)" if is_classifier(run) else "loss")
    for index, column in enumerate(_LOSSES):
        # A single value of the finished model would stand where training ended, whichever round
        # the model is of; and of classes the loss is the log-loss, but for weights.
        alone = _points(run, column) == 1 and _points(run, "train_loss") > 1
        again = column == "validation_loss" and "validation_log_loss" in run.history.columns
        if not alone and not again:
            add_line(plot, words(column), run.history, "epoch", column, index)
    _whole_ticks(plot, run)
    return Figure("loss", "Loss", plot) if plot.data else None


def staleness(run: Run) -> Figure | None:
    """Return how far what was remembered had turned, where local steps were weighted by it."""
    plot = empty_plot("epochs", "cosine of fresh and remembered")
    holder, others = str(run.summary["label_holder"]), run.others_history
    index = 0
    for percent in (90, 50, 10):
        name = f"{holder}: {percent} % of rows below"
        add_line(plot, name, run.history, "epoch", f"local_cosine_p{percent}", index)
        index += 1
    if "local_cosine_p50" in others.columns:
        for (party,), history in others.group_by("organisation", maintain_order=True):
            add_line(plot, f"{party}: half below", history, "epoch", "local_cosine_p50", index)
            index += 1
    if not plot.data:
        return None
    make_room(plot)
    note = "Of rows in local steps since the last evaluation: of derivatives at the label holder, "
    note += "of embeddings at the others."
    return Figure("staleness", "Staleness", plot, note)


def epsilon_by_round(run: Run) -> Figure | None:
    """Return what the accounts of privacy said along training, where any was kept."""
    plot = empty_plot("rounds", "epsilon (nats)")
    notes, index = [], 0
    for name, account, column, note in _EPSILONS:
        loss = run.summary.get(account)
        if not loss or column not in run.history.columns:
            continue
        add_line(plot, name, run.history, "round", column, index)
        if loss["budget"] is not None and len(run.history):
            rounds = run.history["round"].to_list()
            held = pl.DataFrame({"round": [rounds[0], rounds[-1]], "budget": [loss["budget"]] * 2})
            add_line(plot, f"budget of {name}", held, "round", "budget", index + 1)
        notes.append(f"{_capital(name)}: {note}, delta = {loss['delta']:g}.")
        index += 2
    if not plot.data:
        return None
    if len(plot.data) == 1:
        plot.update_layout(showlegend=False)
    make_room(plot)
    plot.update_yaxes(rangemode="tozero")
    note = (
        "Of the row of which most was released until then. No set of outcomes is more than "
        "exp(epsilon) times as likely for one of two neighbours as for the other, but for a "
        f"probability of delta. {' '.join(notes)} Above about 10 that is no promise in practice. "
        "It does not cover what a row leaves in the models."
    )
    return Figure("epsilon", "Epsilon against rounds", plot, note)


_EPSILONS = (
    (
        *("embeddings", "privacy_loss", "epsilon"),
        "what the label holder saw of them, where one party's features are others",
    ),
    (
        *("labels", "privacy_loss_of_labels", "label_epsilon"),
        "what parties saw of a row's own derivatives, where its label is another",
    ),
)
"""What an epsilon is of, its account in the summary, its column in the history, and the words."""


def missing_by_round(run: Run) -> Figure | None:
    """Return in how many rounds each party was not waited for, where somebody may be missing."""
    note = "Of the rounds since the evaluation before: in which no embedding of the party's was "
    note += "in time, and it took no step. Evaluations wait for everybody."
    plot = _by_party(run, MISSING, "missing (% of rounds)")
    return plot and Figure("missing", "Who was missing", plot, note)


def late_by_round(run: Run) -> Figure | None:
    """Return in how many rounds each party's answer was not waited for, where some suffice."""
    note = "Of the rounds since the evaluation before: in which others' answers sufficed. The sum "
    note += "has everybody in it all the same, and everybody takes a step."
    plot = _by_party(run, LATE, "late (% of rounds)")
    return plot and Figure("late", "Whose answer was not waited for", plot, note)


def _by_party(run: Run, prefix: str, y: str) -> go.Figure | None:
    """Return the shares of rounds that columns count, a line for each party."""
    columns = [column for column in run.history.columns if column.startswith(prefix)]
    if not columns:
        return None
    plot = empty_plot("rounds", y)
    since = pl.col("round") - pl.col("round").shift(1, fill_value=0)
    shares = run.history.select("round", *(pl.col(name) * 100 / since for name in columns))
    for index, column in enumerate(columns):
        add_line(plot, column.removeprefix(prefix), shares, "round", column, index)
    make_room(plot)
    plot.update_yaxes(range=(-3, 103))
    return plot


def loss_by_epoch(runs: Mapping[str, Run], order: Sequence[str]) -> Figure | None:
    """Return the training loss of each run."""
    nats = all(is_classifier(run) for run in runs.values())
    plot = empty_plot("epochs", "training loss (nats)" if nats else "training loss")
    for name, run in runs.items():
        add_line(plot, name, run.history, "epoch", "train_loss", order.index(name))
    _whole_ticks(plot, *runs.values())
    make_room(plot)
    return Figure("loss", "Training loss", plot) if plot.data else None


def _points(run: Run, column: str) -> int:
    return int(run.history[column].is_not_null().sum()) if column in run.history.columns else 0


def _whole_ticks(plot: go.Figure, *runs: Run) -> None:
    """Where there are few epochs, name each and no half ones."""
    if max(_last(run.history, "epoch") for run in runs) <= 10:
        plot.update_xaxes(dtick=1)


def _mark_best(plot: go.Figure, run: Run) -> None:
    round, best = run.summary.get("best_round"), run.summary["best"]
    at = run.history.filter(pl.col("round") == round) if round is not None else run.history[:0]
    if len(at) and best is not None:
        plot.add_trace(
            go.Scatter(
                x=[at["epoch"][0]],
                y=[best],
                name="best",
                mode="markers",
                marker={"symbol": "circle-open", "size": 13, "color": INK, "line": {"width": 1.5}},
                hovertemplate=f"best, {best:.4g} after epoch {at['epoch'][0]:.4g}<extra></extra>",
            )
        )


def frontier(runs: Mapping[str, Run], order: Sequence[str]) -> Figure | None:
    """Return what each run reached against what it sent."""
    first = next(iter(runs.values())).summary
    scale, unit = byte_unit(max(bytes_sent(run.summary) for run in runs.values()))
    plot = empty_plot(
        f"training bytes, up and down ({unit})", f"best {quantity(str(first['metric']))}"
    )
    for name, run in runs.items():
        if run.summary["best"] is not None:
            hover = "%{x:.4g} " + unit
            add_point(
                plot,
                name,
                bytes_sent(run.summary) / scale,
                run.summary["best"],
                order.index(name),
                hover,
            )
    if len(plot.data) < 2:
        return None
    room_for_points(plot)
    sizes = [bytes_sent(run.summary) for run in runs.values() if run.summary["best"] is not None]
    if min(sizes) > 0 and max(sizes) > 20 * min(sizes):
        plot.update_xaxes(type="log", dtick=1)
    return Figure("frontier", "Quality against bytes", plot)


def against_epsilon(runs: Mapping[str, Run], order: Sequence[str]) -> Figure | None:
    """Return what each run reached against its epsilon, those without a bound at the right edge."""
    shown = {name: run for name, run in runs.items() if run.summary["best"] is not None}
    spent = {
        name: loss["epsilon"]
        for name, run in shown.items()
        if (loss := run.summary.get("privacy_loss")) and loss["epsilon"]
    }
    if not spent or len(shown) < 2:
        return None
    low, high = min(spent.values()), max(spent.values())
    edge = 3 * high
    metric = str(next(iter(shown.values())).summary["metric"])
    plot = empty_plot("epsilon towards the label holder (nats)", f"best {quantity(metric)}")
    for name, run in shown.items():
        hover = "%{x:.4g}" if name in spent else "no bound"
        best = run.summary["best"]
        add_point(plot, name, spent.get(name, edge), best, order.index(name), hover)
    room_for_points(plot)
    ticks = [
        base * 10**power
        for power in range(floor(log10(low)) - 1, ceil(log10(high)) + 1)
        for base in (1, 2, 5)
        if low <= 2 * base * 10**power <= 3 * high
    ]
    if len(ticks) > 6:
        ticks = [tick for tick in ticks if log10(tick) == round(log10(tick))]
    names = [f"{tick:g}" for tick in ticks]
    if len(spent) < len(shown):
        ticks, names = [*ticks, edge], [*names, "no bound"]
    plot.update_xaxes(type="log", tickvals=ticks, ticktext=names)
    note = "Less is more private, and above about 10 epsilon is no promise in practice."
    return Figure("privacy", "Quality against epsilon", plot, note)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _unit_of(metric: str) -> str:
    """Return the axis that a metric belongs on: only metrics of one kind share it."""
    if is_score(metric):
        return "score"
    return words(metric.removeprefix("validation_").removeprefix("test_"))


def _with_sent(history: pl.DataFrame) -> pl.DataFrame:
    sent = sent_until(history)
    return history if sent is None else history.with_columns(sent=sent)


def _last(history: pl.DataFrame, column: str) -> float:
    return float(history[column][-1] or 0) if column in history.columns and len(history) else 0.0
