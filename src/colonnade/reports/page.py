"""The page of a run, and of several side by side: one HTML file that opens anywhere, offline.

Everything is in the file: style, plots, and the program that draws them. Text from users and other
parties is escaped, in the page by jinja2 and in plots by ``figures``.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import polars as pl
import yaml
from plotly.offline import get_plotlyjs

from colonnade import __version__
from colonnade.faults import explained
from colonnade.forked import check_not_forked
from colonnade.local_reports import local_columns, local_reports
from colonnade.outputs import PAGE, SIGNATURE, check_output, replacing
from colonnade.paths import as_path
from colonnade.reports.epsilons import epsilon_columns, epsilon_facts, epsilon_notes, human_epsilon
from colonnade.reports.figures import comparison_figures, run_figures
from colonnade.reports.groups import by_metric
from colonnade.reports.plots import Figure
from colonnade.reports.sheet import Sheet
from colonnade.reports.tables import (
    CLOCKS,
    besides_notes,
    human_bytes,
    human_seconds,
    privacy_notes,
    reaching_columns,
    rounds_column,
    step_columns,
)
from colonnade.reports.targets import check_target, target_of
from colonnade.reports.words import activity, judged, left_out, pieces, purposes_told, words
from colonnade.runs import Run
from colonnade.sent import SENT, bytes_between, bytes_sent
from colonnade.stragglers import LATE, MISSING

__all__ = ["write_comparison", "write_page", "write_sheets"]


_UNITS = (
    "Bytes are lengths of bodies that were sent; seconds are modelled or measured, as each says."
)


class _Fact(NamedTuple):
    name: str
    value: str
    note: str = ""


def write_page(run: Run, path: str | Path) -> None:
    """Write the page of one run.

    Parameters
    ----------
    run
        The run, as training returned it or as it was read from its folder.
    path
        The HTML file.

    Raises
    ------
    ConfigurationError
        If there is a file that Colonnade did not write.
    Unwritten
        If the file cannot be written.
    """
    check_not_forked()
    s = run.summary
    parties = [name for name in s["parties"] if name != s["label_holder"]]
    _write(
        path,
        title=f"{s['method']}, {len(parties)} {'party' if len(parties) == 1 else 'parties'}",
        lead=_lead(run),
        numbers=_headlines(run),
        first_tables=[],
        figures=run_figures(run),
        network=_network(run),
        protection=[("", [*_protection(run), *_epsilons(run)])],
        warnings=s["warnings"],
        tables=[
            _ledger_table(run),
            _evaluations(run),
            *([steps] if (steps := _local_steps(run)) is not None else []),
            _activities(run),
        ],
        reproduce=_command(run),
        job="job" in run.config,
        configurations=[("config.yaml", _yaml(run.config)), ("summary.json", _json(_brief(s)))],
    )


def write_comparison(
    runs: Mapping[str, Run], path: str | Path, title: str = "", target: float | None = None
) -> None:
    """Write the page of several runs side by side.

    Parameters
    ----------
    runs
        The runs, by the names that the page gives them.
    path
        The HTML file.
    title
        The heading; by default the names.
    target
        The value of the metric that runs are compared by; see ``reaching_table``.

    Raises
    ------
    ConfigurationError
        If there is a file that Colonnade did not write, or a target and several metrics.
    Unwritten
        If the file cannot be written.
    """
    check_not_forked()
    check_target(runs, target)
    groups = by_metric(runs)
    first = next(iter(runs.values())).summary
    rows = {_rows(run.summary) for run in runs.values()}
    differing = _differing(runs)
    protections: dict[tuple[_Fact, ...], list[str]] = {}
    for name, run in runs.items():
        protections.setdefault(tuple(_protection(run)), []).append(name)
    warnings: dict[str, list[str]] = {}
    for name, run in runs.items():
        for warning in run.summary["warnings"]:
            warnings.setdefault(warning, []).append(name)
    _write(
        path,
        title=title or "Runs side by side",
        lead=f"{len(runs)} runs on {_rows(first)}." if len(rows) == 1 else f"{len(runs)} runs.",
        numbers=[],
        first_tables=[
            _runs_table(
                group, f"Results by {words(metric)}" if len(groups) > 1 else "Results", target
            )
            for metric, group in groups.items()
        ]
        + _disclosed(runs),
        figures=comparison_figures(runs),
        network=[],
        protection=[
            ("" if len(names) == len(runs) else ", ".join(names), facts)
            for facts, names in protections.items()
        ],
        warnings=[
            text if len(names) == len(runs) else f"{', '.join(names)}: {text}"
            for text, names in warnings.items()
        ],
        tables=[differing] if differing.rows else [],
        reproduce="",
        configurations=[(name, _yaml(run.config)) for name, run in runs.items()],
    )


def write_sheets(
    path: str | Path,
    title: str,
    lead: str,
    sheets: Sequence[Sheet],
    figures: Sequence[Figure],
    notes: Sequence[str],
    reproduce: str,
    first: int = 1,
    units: str = _UNITS,
) -> None:
    """Write a page of tables and figures, with notes and the command that makes it again.

    So many tables come first, before figures and notes; the last line says what units are.

    Raises
    ------
    ConfigurationError
        If there is a file that Colonnade did not write.
    Unwritten
        If the file cannot be written.
    """
    check_not_forked()
    _write(
        path,
        title=title,
        lead=lead,
        numbers=[],
        first_tables=sheets[:first],
        figures=figures,
        network=[],
        protection=[],
        warnings=notes,
        tables=sheets[first:],
        reproduce=reproduce,
        configurations=[],
        units=units,
    )


def _write(
    path: str | Path,
    *,
    figures: Sequence[Figure],
    units: str = _UNITS,
    job: bool = False,
    **content: Any,
) -> None:
    path = as_path("a report is written to the path of a file", path)
    check_output(path, PAGE)
    drawn = [
        {
            "title": figure.title,
            "note": figure.note,
            "html": figure.plot.to_html(
                full_html=False,
                include_plotlyjs=False,
                div_id=f"figure-{figure.key}",
                config={"displayModeBar": False, "responsive": True},
            ),
        }
        for figure in figures
    ]
    html = _template().render(
        version=__version__,
        plotly=get_plotlyjs() if drawn else "",
        figures=drawn,
        footer=f"{SIGNATURE}. {units}".rstrip(),
        job=job,
        **content,
    )
    with explained(path), replacing(path) as partial:
        # A folder's name may be any bytes.
        partial.write_text(html, encoding="utf-8", errors="backslashreplace")


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("colonnade.reports", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["pieces"] = pieces
    return environment.get_template("page.html.jinja")


# One run


def _lead(run: Run) -> str:
    s = run.summary
    how = "as planned"
    if not s["completed"]:
        how = f"interrupted before round {s['rounds']:,}"
    elif s.get("stopped_early"):
        how = "stopped early"
    absent = left_out(s)
    people = f"{_capital(absent)}. " if absent else ""
    about = judged(s)
    f1 = f" {about}." if about else ""
    return (
        f"{', '.join(s['parties'])}; labels with {s['label_holder']}. {_capital(_rows(s))}. "
        f"{people}{s['rounds']:,} rounds under {s['driver']}, seed {s['seed']}, {how}.{f1}"
    )


def _rows(s: Mapping[str, Any]) -> str:
    rows = f"{s['rows_train']:,} training rows"
    if s.get("rows_validation"):
        rows += f", {s['rows_validation']:,} for validation"
    return rows + f", {s['rows_test']:,} for testing"


def _whose_test(s: Mapping[str, Any]) -> str:
    """Return of which model the figures on test rows are."""
    kept = s.get("kept_round")
    if kept is None or kept == s["rounds"]:
        return "of the finished model"
    return f"of the best model, of round {kept:,}, which was kept"


def _headlines(run: Run) -> list[_Fact]:
    s = run.summary
    name = words(str(s["metric"]))
    facts = [_Fact(f"best {name}", _number(s["best"]), _best_place(run))]
    for metric, value in (s.get("test") or {}).items():
        if str(s["metric"]) == f"validation_{metric}":
            facts.append(_Fact(f"test {words(metric)}", _number(value), _whose_test(s)))
    facts += [
        _Fact("sent up", human_bytes(s["bytes_up"]), "for training"),
        _Fact("sent down", human_bytes(s["bytes_down"]), "for training"),
        *_between(s),
        _Fact("sent besides", human_bytes(s["bytes_evaluation"]), "to evaluate"),
        *_besides(s),
        _Fact("everything", human_bytes(s["bytes_framed"]), "with envelopes"),
        *_epsilon(s),
        *_rounding(s),
        *_discarded(s),
        _Fact(
            _clock(run),
            human_seconds(s["seconds_training"]),
            f"of training; network {s['clock']['network']}, compute {s['clock']['compute']}",
        ),
    ]
    return facts


def _between(summary: Mapping[str, Any]) -> list[_Fact]:
    """Return what parties sent each other, where they did."""
    between = bytes_between(summary)
    return [_Fact("between parties", human_bytes(between), "for training")] if between else []


def _besides(summary: Mapping[str, Any]) -> list[_Fact]:
    """Return what was sent to set up, and what a crash undid, where there was any."""
    facts = []
    if summary.get("bytes_setup"):
        facts.append(_Fact("sent before", human_bytes(summary["bytes_setup"]), "to set up"))
    if count := summary.get("messages_lost"):
        size = human_bytes(summary.get("bytes_lost", 0))
        facts.append(_Fact("lost to a crash", size, f"in {count:,} messages, sent again"))
    return facts


def _rounding(summary: Mapping[str, Any]) -> list[_Fact]:
    """Return by how much rounding changed embeddings, where parties say so."""
    errors = summary.get("rounding_error")
    if not errors:
        return []
    return [_Fact("rounding error", f"{max(errors.values()):.2g}", "of an embedding, the largest")]


def _epsilon(summary: Mapping[str, Any]) -> list[_Fact]:
    """Return what the accounts of privacy say, where any was kept."""
    facts = []
    for name, account, to in (
        ("epsilon", "privacy_loss", "the label holder"),
        ("epsilon of labels", "privacy_loss_of_labels", "the parties"),
    ):
        if loss := summary.get(account):
            note = f"towards {to}, delta {loss['delta']:g}"
            if loss["budget"] is not None:
                note += f", budget {loss['budget']:g}"
            facts.append(_Fact(name, human_epsilon(loss["epsilon"]), note))
    return facts


def _epsilons(run: Run) -> list[_Fact]:
    losses = (run.summary.get(which) for which in ("privacy_loss", "privacy_loss_of_labels"))
    return [_Fact(_capital(name), told) for name, told in epsilon_facts(*losses)]


def _discarded(summary: Mapping[str, Any]) -> list[_Fact]:
    """Return how much came too late, where anything did."""
    count = summary.get("messages_discarded", 0)
    if not count:
        return []
    size = human_bytes(summary.get("bytes_discarded", 0))
    return [_Fact("too late", size, f"in {count:,} messages, discarded")]


def _best_place(run: Run) -> str:
    round = run.summary.get("best_round")
    if round is None:
        return "" if run.summary["best"] is not None else "not evaluated"
    at = run.history.filter(pl.col("round") == round)
    return f"after epoch {at['epoch'][0]:.4g}" if len(at) else f"after round {round:,}"


def _clock(run: Run) -> str:
    return "wall time" if run.summary["seconds_virtual"] is None else "modelled time"


def _network(run: Run) -> list[_Fact]:
    return [
        _Fact(_capital(name), told) for name, told in (run.summary.get("network") or {}).items()
    ]


def _protection(run: Run) -> list[_Fact]:
    return [_Fact(_capital(name), _capital(str(v))) for name, v in run.summary["privacy"].items()]


def _ledger_table(run: Run) -> Sheet:
    grouped = (
        purposes_told(run.ledger)
        .group_by("sender", "receiver", "kind", "purpose", maintain_order=True)
        .agg(pl.len(), pl.col("body_bytes").sum(), pl.col("framed_bytes").sum())
    )
    rows = [
        (sender, receiver, kind, purpose, f"{count:,}", human_bytes(body), human_bytes(framed))
        for sender, receiver, kind, purpose, count, body, framed in grouped.rows()
    ]
    head = ("organisation", "to", "kind", "purpose", "messages", "bodies", "with envelopes")
    return Sheet("What left each building", head, rows, text=(0, 1, 2, 3))


_LOCAL_REPORTS = {
    "local_steps": "steps",
    "local_uses_per_batch": "uses of a batch",
    "local_cosine_p10": "cosine, 10 % below",
    "local_cosine_p50": "half below",
    "local_cosine_p90": "90 % below",
    "local_rows_too_stale": "rows left out",
}
"""How a table calls what policies report of local steps; others keep their names."""


def _local_steps(run: Run) -> Sheet | None:
    """Return each organisation's local steps, where any reported that it took some."""
    reports = local_reports(run.history, run.others_history)
    if not any(told.get("local_steps") for told in reports.values()):
        return None
    columns = list(dict.fromkeys(column for told in reports.values() for column in told))
    rows = [
        (name, *(_of_steps(column, told.get(column)) for column in columns))
        for name, told in reports.items()
    ]
    taken = run.summary.get("local_updates", {})
    notes = []
    if any(told.get("local_steps", 0) < taken.get(name, 0) for name, told in reports.items()):
        notes.append("Until the last evaluation.")
    if "local_bubbles" in columns:
        notes.append("Bubbles: times that all remembered batches had to rest.")
    shares = run.summary.get("held_back", {})
    if shares:
        told = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
        notes.append(f"Held back, of its time in training: {told}; see docs/waiting.md.")
    if any(column.startswith("local_cosine_") for column in columns):
        notes.append("Cosines, of fresh and remembered, are means over evaluations.")
    head = ("organisation", *(_of_local_steps(column) for column in columns))
    return Sheet("Local steps", head, rows, note=" ".join(notes))


def _of_local_steps(column: str) -> str:
    return _LOCAL_REPORTS.get(column) or words(column.removeprefix("local_"))


def _of_steps(column: str, value: float | None) -> str:
    if value is None:
        return ""
    if isinstance(value, int):
        return f"{value:,}"
    if column == "local_rows_too_stale":
        return f"{value:.2%}"
    return f"{value:.3f}" if column.startswith("local_cosine_") else f"{value:.4g}"


def _command(run: Run) -> str:
    """Return what runs it again; nothing where that is a job of several organisations."""
    if run.folder is None or "job" in run.config:
        return ""
    return shlex.join(["colonnade", "run", str(run.folder / "config.yaml")])


def _evaluations(run: Run) -> Sheet:
    history = run.history
    if len(history) > 16:  # the first, the last, evenly between, and the best
        step = (len(history) - 1) / 11
        places = {round(i * step) for i in range(12)}
        best = run.summary.get("best_round")
        if best is not None and best in history["round"]:
            places.add(history["round"].to_list().index(best))
        history = history[sorted(places)]
    hidden = {*SENT, "organisation", "seconds", "seconds_evaluation", *local_columns(history)}
    hidden |= {column for column in history.columns if column.startswith((MISSING, LATE))}
    columns = [column for column in history.columns if column not in hidden]
    rows = [
        [_cell(column, row[column]) for column in columns] for row in history.iter_rows(named=True)
    ]
    notes = [f"{len(history)} of {len(run.history)}."] if len(history) < len(run.history) else []
    once = [c for c in columns if c.startswith("test_") and history[c].count() == 1]
    if once and len(history) > 1:
        notes.append(f"Test rows: once, {_whose_test(run.summary)}.")
    return Sheet("Evaluations", [words(column) for column in columns], rows, note=" ".join(notes))


def _activities(run: Run) -> Sheet:
    entries = run.summary.get("activities", [])
    rows = [
        (
            entry["organisation"],
            entry["purpose"],
            activity(entry["activity"]),
            f"{entry['count']:,}",
            human_seconds(entry["seconds"]),
            human_seconds(entry["seconds_cpu"]),
        )
        for entry in entries
    ]
    head = ("organisation", "purpose", "activity", "times", _clock(run), "CPU time here")
    return Sheet("Where time went", head, rows, text=(0, 1, 2))


# Several runs


def _runs_table(runs: Mapping[str, Run], title: str, target: float | None) -> Sheet:
    """Return what runs that are judged by one metric reached and took.

    What is compared most stands at the left, where a narrow screen shows it.
    """
    summaries = [run.summary for run in runs.values()]
    metric = str(summaries[0]["metric"])
    tested = [k for k in (summaries[0].get("test") or {}) if metric == f"validation_{k}"]
    chosen = target_of(runs, target)
    sent = [bytes_sent(s) for s in summaries]
    between = [bytes_between(s) for s in summaries]
    columns: dict[str, list[str]] = {
        "run": list(runs),
        f"best {words(metric)}": [_number(s["best"]) for s in summaries],
        **reaching_columns(runs, chosen),
        **rounds_column(runs),
        "time": [
            human_seconds(s["seconds_training"]) + ("" if s["seconds_virtual"] is not None else "*")
            for s in summaries
        ],
        "sent up": [human_bytes(s["bytes_up"]) for s in summaries],
        "down": [human_bytes(s["bytes_down"]) for s in summaries],
        **({"between parties": [human_bytes(each) for each in between]} if any(between) else {}),
        "of the first": [f"{each / sent[0]:.1%}" if sent[0] else "—" for each in sent],
        **{
            f"test {words(k)}": [_number((s.get("test") or {}).get(k)) for s in summaries]
            for k in tested
        },
        **step_columns(runs),
    }
    notes = [] if chosen is None else [f"{_capital(chosen.told)}.", f"{_capital(CLOCKS)}."]
    real = any(s["seconds_virtual"] is None for s in summaries)
    notes.append(("* real time on this machine; other t" if real else "T") + "imes are modelled.")
    notes += [f"{said}." for said in [*besides_notes(runs), *privacy_notes(runs)]]
    rows = list(zip(*columns.values(), strict=True))
    return Sheet(title, tuple(columns), rows, note=" ".join(notes))


def _disclosed(runs: Mapping[str, Run]) -> list[Sheet]:
    """Return a table of the runs' epsilons, where any has one."""
    columns = {"run": list(runs), **epsilon_columns(runs)}
    rows = list(zip(*columns.values(), strict=True))
    notes = [f"{said}." for said in epsilon_notes(runs)]
    if len(notes) == 1:
        notes = [_capital(notes[0])]
    return [Sheet("Epsilon", tuple(columns), rows, note=" ".join(notes))] if notes else []


def _differing(runs: Mapping[str, Run]) -> Sheet:
    """Return the settings in which the runs differ."""
    flat = {name: _flat(run.config) for name, run in runs.items()}
    keys = dict.fromkeys(key for settings in flat.values() for key in settings)
    rows = []
    for key in keys:
        values = [settings.get(key, "—") for settings in flat.values()]
        if len(set(values)) > 1:
            rows.append((key, *values))
    columns = range(len(runs) + 1)
    return Sheet("Settings that differ", ("setting", *runs), rows, text=columns, wrap=columns)


def _flat(config: Mapping[str, Any], path: str = "") -> dict[str, str]:
    """Return nested settings as text by path."""
    flat: dict[str, str] = {}
    for key, value in config.items():
        place = f"{path}.{key}".strip(".")
        if isinstance(value, Mapping):
            flat |= _flat(value, place)
        else:
            flat[place] = _setting(value)
    return flat


def _setting(value: Any) -> str:
    """Return a setting as a configuration file spells it."""
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


# Words and numbers


def _brief(summary: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in summary.items() if key != "activities"}


def _json(values: Mapping[str, Any]) -> str:
    return json.dumps(values, indent=2, ensure_ascii=False)


def _yaml(values: Mapping[str, Any]) -> str:
    return str(yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True))


def _number(value: float | None) -> str:
    """Return a metric with sensible digits."""
    if value is None or not math.isfinite(value):
        return "—"
    return f"{value:.4f}" if abs(value) < 10 else f"{value:.5g}"


def _cell(column: str, value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, int):
        return f"{value:,}"
    if column in ("epoch", "learning_rate"):
        return f"{value:.4g}"
    return _number(float(value))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
