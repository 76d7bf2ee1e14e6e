"""Interactive figures of runs: pure functions from runs to plotly's figures.

Axes name their quantity and its unit; a unit is chosen for a figure, so that its numbers are short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from math import ceil, floor, log10

import plotly.graph_objects as go
import polars as pl

from colonnade import effects
from colonnade.reports.groups import by_metric, is_classifier
from colonnade.reports.palette import GRID, HELD_BACK, INK, WAITING, colour, turn
from colonnade.reports.words import activity, broken, is_score, purposes_told, quantity, words
from colonnade.runs import Run
from colonnade.sent import bytes_between, bytes_sent, sent_until
from colonnade.stragglers import LATE, MISSING
from colonnade.wire import Purpose

__all__ = ["Figure", "comparison_figures", "empty_plot", "plot_text", "run_figures"]

_LOSSES = ("train_loss", "validation_log_loss", "test_log_loss", "validation_loss")
_JUDGED = ("validation_", "test_")  # how columns of metrics begin
_WAIT = "wait"
_SHADES = {_WAIT: WAITING, f"{_WAIT}, {effects.HELD_BACK}": HELD_BACK}

# What has a colour of its own, whoever sends it first and whatever there is besides.
_EXCHANGED = (
    *("embedding, up", "derivative, down", "embedding, down", "codes, up", "codes, down"),
    *("total, down", "top, down", "skipped, down"),
)

# What tells curves and points apart that share a colour, as there are more of them than colours.
_DASHES = ("solid", "dash", "dot", "dashdot")
_SYMBOLS = ("circle", "square", "diamond", "cross")

# On a telephone a figure is some 350 pixels wide, and a character 7 to 8.
_LEGEND_WIDTH, _LABEL_WIDTH = 30, 18
_LINE_HEIGHT = 17


@dataclass(frozen=True)
class Figure:
    """A figure with the words around it.

    Parameters
    ----------
    key
        A name for the element of the page.
    title
        What it shows.
    plot
        The figure itself.
    note
        What a reader should know besides.
    """

    key: str
    title: str
    plot: go.Figure
    note: str = ""


def run_figures(run: Run) -> list[Figure]:
    """Return the figures of one run; those that it has nothing for are left out."""
    name = words(str(run.summary["metric"]))
    runs = {name: run}
    figures = [
        _metrics_by_epoch(run),
        _against_bytes(runs, list(runs)),
        _against_time(runs, list(runs)),
        _losses(run),
        _staleness(run),
        _epsilon_by_round(run),
        _missing_by_round(run),
        _late_by_round(run),
        _bytes_by_party(run),
        _bytes_by_purpose(run),
        _time_shares({"": run}),
    ]
    return [figure for figure in figures if figure is not None]


def comparison_figures(runs: Mapping[str, Run]) -> list[Figure]:
    """Return the figures that put several runs side by side."""
    groups, order = by_metric(runs), list(runs)
    classes = {name: run for name, run in runs.items() if is_classifier(run)}
    numbers = {name: run for name, run in runs.items() if name not in classes}
    figures = [
        *_of_each(groups.values(), order, _against_epochs, _against_bytes, _against_time),
        *_of_each((classes, numbers), order, _loss_by_epoch),
        *_of_each(groups.values(), order, _frontier, _against_epsilon),
        _bytes_by_run(runs),
        _time_shares(runs),
    ]
    return [figure for figure in figures if figure is not None]


def _of_each(
    groups: Iterable[Mapping[str, Run]],
    order: Sequence[str],
    *make: Callable[[Mapping[str, Run], Sequence[str]], Figure | None],
) -> Iterator[Figure]:
    """Yield the figures of each group of runs that can be compared, each with a key of its own."""
    for number, group in enumerate(group for group in groups if group):
        for figure in (each(group, order) for each in make):
            if figure is not None:
                yield replace(figure, key=f"{figure.key}-{number}") if number else figure


# Curves


def _metrics_by_epoch(run: Run) -> Figure | None:
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
        _line(plot, words(column), run.history, "epoch", column, index)
    if not plot.data:
        return None
    _mark_best(plot, run)
    _whole_ticks(plot, run)
    return Figure("metric-epochs", "Metrics against epochs", plot)


def _against_epochs(runs: Mapping[str, Run], order: Sequence[str]) -> Figure | None:
    figure = _curves("metric-epochs", "against epochs", runs, "epoch", 1, "epochs", order)
    if figure is not None:
        _whole_ticks(figure.plot, *runs.values())
    return figure


def _against_bytes(runs: Mapping[str, Run], order: Sequence[str]) -> Figure | None:
    most = max((bytes_sent(run.summary) for run in runs.values()), default=0)
    scale, unit = _byte_unit(most)
    label = f"training bytes, up and down ({unit})"
    figure = _curves("metric-bytes", "against bytes", runs, "sent", scale, label, order)
    least = min((bytes_sent(run.summary) for run in runs.values()), default=0)
    if figure is not None and most > 20 * max(least, 1):
        figure.plot.update_xaxes(type="log", dtick=1)
    return figure


def _against_time(runs: Mapping[str, Run], order: Sequence[str]) -> Figure | None:
    virtual = [name for name, run in runs.items() if run.summary["seconds_virtual"] is not None]
    # Modelled and measured seconds do not belong on one axis: the more frequent clock is shown.
    modelled = len(virtual) * 2 >= len(runs)
    shown = {name: run for name, run in runs.items() if (name in virtual) is modelled}
    longest = max((_last(run.history, "seconds") for run in shown.values()), default=0.0)
    scale, unit = _second_unit(longest)
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
            _line(plot, name, history, x, own, order.index(name))
    if not plot.data:
        return None
    if len(runs) == 1:
        plot.update_layout(showlegend=False)
    values = [value for trace in plot.data for value in trace.y]
    if min(values) == max(values):
        _at_least(plot, values, 0.1)
    _make_room(plot)
    return Figure(key, f"{_capital(words(metric))} {against}", plot)


def _losses(run: Run) -> Figure | None:
    plot = empty_plot("epochs", "loss (nats)" if is_classifier(run) else "loss")
    for index, column in enumerate(_LOSSES):
        # A single value of the finished model would stand where training ended, whichever round
        # the model is of; and of classes the loss is the log-loss, but for weights.
        alone = _points(run, column) == 1 and _points(run, "train_loss") > 1
        again = column == "validation_loss" and "validation_log_loss" in run.history.columns
        if not alone and not again:
            _line(plot, words(column), run.history, "epoch", column, index)
    _whole_ticks(plot, run)
    return Figure("loss", "Loss", plot) if plot.data else None


def _staleness(run: Run) -> Figure | None:
    """Return how far what was remembered had turned, where local steps were weighted by it."""
    plot = empty_plot("epochs", "cosine of fresh and remembered")
    holder, others = str(run.summary["label_holder"]), run.others_history
    index = 0
    for percent in (90, 50, 10):
        name = f"{holder}: {percent} % of rows below"
        _line(plot, name, run.history, "epoch", f"local_cosine_p{percent}", index)
        index += 1
    if "local_cosine_p50" in others.columns:
        for (party,), history in others.group_by("organisation", maintain_order=True):
            _line(plot, f"{party}: half below", history, "epoch", "local_cosine_p50", index)
            index += 1
    if not plot.data:
        return None
    _make_room(plot)
    note = "Of rows in local steps since the last evaluation: of derivatives at the label holder, "
    note += "of embeddings at the others."
    return Figure("staleness", "Staleness", plot, note)


def _epsilon_by_round(run: Run) -> Figure | None:
    """Return what the accounts of privacy said along training, where any was kept."""
    plot = empty_plot("rounds", "epsilon (nats)")
    notes, index = [], 0
    for name, account, column, note in _EPSILONS:
        loss = run.summary.get(account)
        if not loss or column not in run.history.columns:
            continue
        _line(plot, name, run.history, "round", column, index)
        if loss["budget"] is not None and len(run.history):
            rounds = run.history["round"].to_list()
            held = pl.DataFrame({"round": [rounds[0], rounds[-1]], "budget": [loss["budget"]] * 2})
            _line(plot, f"budget of {name}", held, "round", "budget", index + 1)
        notes.append(f"{_capital(name)}: {note}, delta = {loss['delta']:g}.")
        index += 2
    if not plot.data:
        return None
    if len(plot.data) == 1:
        plot.update_layout(showlegend=False)
    _make_room(plot)
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


def _missing_by_round(run: Run) -> Figure | None:
    """Return in how many rounds each party was not waited for, where somebody may be missing."""
    note = "Of the rounds since the evaluation before: in which no embedding of the party's was "
    note += "in time, and it took no step. Evaluations wait for everybody."
    plot = _by_party(run, MISSING, "missing (% of rounds)")
    return plot and Figure("missing", "Who was missing", plot, note)


def _late_by_round(run: Run) -> Figure | None:
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
        _line(plot, column.removeprefix(prefix), shares, "round", column, index)
    _make_room(plot)
    plot.update_yaxes(range=(-3, 103))
    return plot


def _loss_by_epoch(runs: Mapping[str, Run], order: Sequence[str]) -> Figure | None:
    nats = all(is_classifier(run) for run in runs.values())
    plot = empty_plot("epochs", "training loss (nats)" if nats else "training loss")
    for name, run in runs.items():
        _line(plot, name, run.history, "epoch", "train_loss", order.index(name))
    _whole_ticks(plot, *runs.values())
    _make_room(plot)
    return Figure("loss", "Training loss", plot) if plot.data else None


def _points(run: Run, column: str) -> int:
    return int(run.history[column].is_not_null().sum()) if column in run.history.columns else 0


def _whole_ticks(plot: go.Figure, *runs: Run) -> None:
    """Where there are few epochs, name each and no half ones."""
    if max(_last(run.history, "epoch") for run in runs) <= 10:
        plot.update_xaxes(dtick=1)


def _make_room(plot: go.Figure) -> None:
    """Make the figure higher by what a long legend takes on a narrow screen."""
    lines = sum(trace.name.count("<br>") + 1 for trace in plot.data)
    plot.update_layout(height=330 + _LINE_HEIGHT * max(0, lines - 3))


def _at_least(plot: go.Figure, values: Sequence[float], span: float) -> None:
    """Show so much of the axis that chance does not look like a difference."""
    low, high = min(values), max(values)
    size = abs(high) or 1.0
    if high - low < span * size:
        middle, half = (low + high) / 2, 0.6 * span * size
        plot.update_yaxes(range=[middle - half, middle + half])


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


def _frontier(runs: Mapping[str, Run], order: Sequence[str]) -> Figure | None:
    """Return what each run reached against what it sent."""
    first = next(iter(runs.values())).summary
    scale, unit = _byte_unit(max(bytes_sent(run.summary) for run in runs.values()))
    plot = empty_plot(
        f"training bytes, up and down ({unit})", f"best {quantity(str(first['metric']))}"
    )
    for name, run in runs.items():
        if run.summary["best"] is not None:
            hover = "%{x:.4g} " + unit
            _point(
                plot,
                name,
                bytes_sent(run.summary) / scale,
                run.summary["best"],
                order.index(name),
                hover,
            )
    if len(plot.data) < 2:
        return None
    _room_for_points(plot)
    sizes = [bytes_sent(run.summary) for run in runs.values() if run.summary["best"] is not None]
    if min(sizes) > 0 and max(sizes) > 20 * min(sizes):
        plot.update_xaxes(type="log", dtick=1)
    return Figure("frontier", "Quality against bytes", plot)


def _against_epsilon(runs: Mapping[str, Run], order: Sequence[str]) -> Figure | None:
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
        _point(plot, name, spent.get(name, edge), best, order.index(name), hover)
    _room_for_points(plot)
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


def _point(plot: go.Figure, name: str, x: float, y: float, index: int, hover: str) -> None:
    plot.add_trace(
        go.Scatter(
            x=[x],
            y=[y],
            name=_lines(name, _LEGEND_WIDTH),
            mode="markers",
            marker={
                "size": 12,
                "color": colour(index),
                "symbol": _SYMBOLS[turn(index) % len(_SYMBOLS)],
            },
            hovertemplate=hover + ", %{y:.4f}<extra>%{fullData.name}</extra>",
        )
    )


def _room_for_points(plot: go.Figure) -> None:
    _make_room(plot)
    _at_least(plot, [trace.y[0] for trace in plot.data if trace.y[0] is not None], 0.02)


# Bars


def _bytes_by_party(run: Run) -> Figure | None:
    """Return what went up from and down to each party for training, by kind."""
    holder = run.summary["label_holder"]
    ledger = run.ledger.frame().filter(
        pl.col("purpose").is_in(Purpose.training_labels()) & ~pl.col("lost")
    )
    party = pl.when(pl.col("sender") == holder).then("receiver").otherwise("sender")
    grouped = (
        ledger.with_columns(party=party, up=pl.col("receiver") == holder)
        .group_by("party", "kind", "up", maintain_order=True)
        .agg(pl.col("body_bytes").sum())
    )
    if not len(grouped):
        return None
    parties = [name for name in run.summary["parties"] if name != holder]
    most = grouped.group_by("party").agg(pl.col("body_bytes").sum())["body_bytes"].max()
    scale, unit = _byte_unit(float(most or 0))  # type: ignore[arg-type]  # a number
    bars = []
    for kind, up in grouped.select("kind", "up").unique().sort("kind", "up").rows():
        sent = dict(grouped.filter(kind=kind, up=up).select("party", "body_bytes").rows())
        name = f"{kind}, {'up' if up else 'down'}"
        bars.append((name, [sent.get(party, 0) / scale for party in parties]))
    places = {name: place for place, name in enumerate(_EXCHANGED)}
    bars.sort(key=lambda bar: places.get(bar[0], len(places)))
    plot = _bars(parties, bars, f"training bytes ({unit})", "%{x:.4g} " + unit, _EXCHANGED)
    return Figure("bytes-party", "Bytes by party and kind", plot)


def _bytes_by_purpose(run: Run) -> Figure | None:
    grouped = (
        purposes_told(run.ledger)
        .with_columns(envelopes=pl.col("framed_bytes") - pl.col("body_bytes"))
        .group_by("purpose", maintain_order=True)
        .agg(pl.col("body_bytes").sum(), pl.col("envelopes").sum())
    )
    if not len(grouped):
        return None
    most = (grouped["body_bytes"] + grouped["envelopes"]).max()
    scale, unit = _byte_unit(float(most or 0))  # type: ignore[arg-type]  # a number
    bars = [
        ("bodies", [value / scale for value in grouped["body_bytes"]]),
        ("envelopes", [value / scale for value in grouped["envelopes"]]),
    ]
    plot = _bars(grouped["purpose"].to_list(), bars, f"bytes ({unit})", "%{x:.4g} " + unit)
    return Figure("bytes-purpose", "Bytes by purpose", plot)


def _bytes_by_run(runs: Mapping[str, Run]) -> Figure | None:
    totals = [bytes_sent(run.summary) for run in runs.values()]
    between = [bytes_between(run.summary) for run in runs.values()]
    evaluation = [run.summary["bytes_evaluation"] for run in runs.values()]
    if not sum(totals):
        return None
    scale, unit = _byte_unit(max(a + b for a, b in zip(totals, evaluation, strict=True)))
    bars = [
        ("training, up", [run.summary["bytes_up"] / scale for run in runs.values()]),
        ("training, down", [run.summary["bytes_down"] / scale for run in runs.values()]),
        *([("training, between parties", [b / scale for b in between])] if any(between) else []),
        ("evaluation", [value / scale for value in evaluation]),
    ]
    return Figure(
        "bytes-run",
        "Bytes by run",
        _bars(list(runs), bars, f"bytes of bodies ({unit})", "%{x:.4g} " + unit),
    )


def _time_shares(runs: Mapping[str, Run]) -> Figure | None:
    """Return what each organisation did with its time, as shares of all of it."""
    seconds: dict[str, dict[str, float]] = {}
    for name, run in runs.items():
        for entry in run.summary.get("activities", []):
            owner = entry["organisation"]
            if len(runs) > 1 and owner != run.summary["label_holder"]:
                continue  # of several runs only the label holders, whose time is that of the run
            spent = seconds.setdefault(name if len(runs) > 1 else owner, {})
            spent[entry["activity"]] = spent.get(entry["activity"], 0.0) + entry["seconds"]
    if not any(sum(spent.values()) for spent in seconds.values()):
        return None
    kinds = list(dict.fromkeys(kind for spent in seconds.values() for kind in spent))
    kinds.sort(key=lambda kind: (kind == effects.HELD_BACK, kind == _WAIT))
    totals = {label: sum(spent.values()) or 1.0 for label, spent in seconds.items()}
    bars = [
        (activity(kind), [100 * spent.get(kind, 0) / totals[n] for n, spent in seconds.items()])
        for kind in kinds
    ]
    known = [words(kind) for kind in effects.KINDS_OF_WORK]
    plot = _bars(list(seconds), bars, "share of its time (%)", "%{x:.1f} %", known)
    plot.update_xaxes(range=[0, 100])
    modelled = {run.summary["seconds_virtual"] is not None for run in runs.values()}
    clock = "on each run's clock" if len(modelled) > 1 else "in real time"
    clock = "on the modelled clock" if modelled == {True} else clock
    whose = "Work and waiting of the label holder" if len(runs) > 1 else "Work and waiting"
    held = (
        " Held back: a batch was at hand, but no more steps were allowed before the next exchange."
    )
    note = f"{whose}, {clock}." + (held if effects.HELD_BACK in kinds else "")
    return Figure("time", "Where time goes", plot, note)


# Parts


def empty_plot(x: str, y: str) -> go.Figure:
    """Return a figure without traces, whose axes say what they show."""
    axis = {
        "gridcolor": GRID,
        "linecolor": "#aab2ba",
        "zeroline": False,
        "ticks": "outside",
        "tickcolor": "#aab2ba",
        "ticklen": 4,
        "automargin": True,
    }
    title = {"standoff": 10, "font": {"size": 13}}
    return go.Figure(
        layout={
            "template": "none",
            "font": {"family": "system-ui, sans-serif", "size": 13, "color": INK},
            "colorway": [colour(index) for index in range(7)],
            "margin": {"l": 12, "r": 16, "t": 8, "b": 12},
            "height": 330,
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "hovermode": "closest",
            "hoverlabel": {"namelength": -1},
            "legend": {
                "orientation": "h",
                "yanchor": "bottom",
                "y": 1.02,
                "xanchor": "left",
                "x": 0,
                "font": {"size": 12},
                "traceorder": "normal",
                "maxheight": 2000,  # never a legend that scrolls
            },
            "xaxis": axis | {"title": title | {"text": plot_text(x)}},
            "yaxis": axis | {"title": title | {"text": plot_text(y)}},
        }
    )


def _line(plot: go.Figure, name: str, history: pl.DataFrame, x: str, y: str, index: int) -> None:
    if x not in history.columns or y not in history.columns:
        return
    rows = history.select(x, y).drop_nulls().filter(pl.col(y).cast(pl.Float64).is_finite())
    if not len(rows):
        return
    plot.add_trace(
        go.Scatter(
            x=rows[x].to_list(),
            y=rows[y].to_list(),
            name=_lines(name, _LEGEND_WIDTH),
            mode="lines+markers" if len(rows) <= 40 else "lines",
            line={
                "color": colour(index),
                "width": 2,
                "dash": _DASHES[turn(index) % len(_DASHES)],
            },
            marker={"size": 6},
            hovertemplate="%{y:.4f} at %{x:.4g}<extra>%{fullData.name}</extra>",
        )
    )


def _bars(
    labels: Sequence[str],
    bars: Sequence[tuple[str, Sequence[float]]],
    x: str,
    hover: str,
    known: Sequence[str] = (),
) -> go.Figure:
    """Return lying bars, stacked: names of organisations need the room on the left.

    Those that are known have the colours of their places, the others those that follow.
    """
    others = [name for name, _ in bars if name not in known and name not in _SHADES]
    colours = {name: colour(index) for index, name in enumerate([*known, *others])} | _SHADES
    plot = empty_plot(x, "")
    names = [plot_text(label) for label in labels]
    shown = [_lines(label, _LABEL_WIDTH) for label in labels]
    row = max(30, 8 + _LINE_HEIGHT * max((text.count("<br>") + 1 for text in shown), default=1))
    for name, values in bars:
        plot.add_trace(
            go.Bar(
                y=names,
                x=list(values),
                name=plot_text(name),
                orientation="h",
                marker={"color": colours[name]},
                hovertemplate=hover + "<extra>%{fullData.name}</extra>",
            )
        )
    plot.update_layout(
        barmode="stack",
        bargap=0.35,
        height=max(230, 150 + row * len(labels)) + _LINE_HEIGHT * max(0, len(plot.data) - 4),
        hovermode="closest",
    )
    plot.update_yaxes(autorange="reversed", title=None, showgrid=False, type="category")
    plot.update_yaxes(tickmode="array", tickvals=names, ticktext=shown)
    return plot


def plot_text(name: str) -> str:
    """Return a name for plotly, which would read some of it as markup."""
    return escape(name, quote=False)


def _lines(name: str, width: int) -> str:
    """Return a name for plotly on as many lines as it needs."""
    return "<br>".join(plot_text(line) for line in broken(name, width))


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


def _byte_unit(most: float) -> tuple[float, str]:
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if most >= size:
            return size, unit
    return 1.0, "B"


def _second_unit(longest: float) -> tuple[float, str]:
    for size, unit in ((7200, "h"), (300, "min"), (1, "s")):
        if longest >= size:
            return {7200: 3600.0, 300: 60.0, 1: 1.0}[size], unit
    return 1e-3, "ms"
