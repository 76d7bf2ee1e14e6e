"""What came of a run, as tables and as plain values: the account that a summary is."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import polars as pl

from colonnade.drivers import RunRecord
from colonnade.effects import HELD_BACK
from colonnade.local_reports import local_reports
from colonnade.sent import SENT
from colonnade.wire import Purpose

__all__ = [
    "history_frame",
    "others_history_frame",
    "rounding_errors",
    "summarise",
]


def history_frame(record: RunRecord, label_holder: str) -> pl.DataFrame:
    """Return what the label holder reported, with the training bytes sent before each row's round.

    The bytes are those of bodies; up is towards the label holder, down from it. What others report
    is not among it, so that whoever looks for a metric finds that of the model; see
    ``others_history_frame``.
    """
    rows = [row for row in record.history if row["organisation"] == label_holder]
    if not rows:
        return pl.DataFrame(schema={"round": pl.Int64})
    history = pl.DataFrame(rows, infer_schema_length=None).sort("round")
    sent = _sent_before(record.ledger.frame(), label_holder, history["round"])
    return history.join(sent, on="round", how="left", maintain_order="left")


def _sent_before(ledger: pl.DataFrame, label_holder: str, rounds: pl.Series) -> pl.DataFrame:
    """Return the training bytes of each direction that had left when each round began.

    A sender's messages before that are those before its first of that round's evaluation; of one
    who sent none then, those of the rounds before. Not all methods number training messages by the
    round: where nobody waits, each party counts steps of its own.
    """
    kept = ledger.filter(~pl.col("lost"))
    up, down = pl.col("receiver") == label_holder, pl.col("sender") == label_holder
    training = kept.filter(pl.col("purpose").is_in(Purpose.training_labels())).select(
        "sender",
        "round",
        "sequence",
        bytes_up=pl.col("body_bytes") * up,
        bytes_down=pl.col("body_bytes") * down,
        bytes_between=pl.col("body_bytes") * (~up & ~down),
    )
    in_order = training.sort("sequence").with_columns(pl.col(*SENT).cum_sum().over("sender"))
    by_round = (
        training.group_by("sender", "round")
        .agg(pl.col(*SENT).sum())
        .sort("round")
        .with_columns(pl.col(*SENT).cum_sum().over("sender"), pl.col("round") + 1)
    )
    evaluated = kept.filter(purpose=Purpose.EVALUATION.label)
    first = evaluated.group_by("sender", "round").agg(until=pl.col("sequence").min())
    senders = training.select(pl.col("sender").unique(maintain_order=True))
    wanted = rounds.unique().to_frame().join(senders, how="cross")
    wanted = wanted.join(first, on=["sender", "round"], how="left")
    before = pl.concat(
        [
            wanted.drop_nulls("until")
            .sort("until")
            .join_asof(
                in_order.drop("round"),
                left_on="until",
                right_on="sequence",
                by="sender",
                allow_exact_matches=False,
                check_sortedness=False,  # it is, and cannot be checked by sender
            )
            .select("round", *SENT),
            wanted.filter(pl.col("until").is_null())
            .sort("round")
            .join_asof(by_round, on="round", by="sender", check_sortedness=False)
            .select("round", *SENT),
        ]
    )
    sums = before.group_by("round").agg(pl.col(*SENT).sum())
    return rounds.unique().to_frame().join(sums, on="round", how="left").fill_null(0)


def others_history_frame(record: RunRecord, label_holder: str) -> pl.DataFrame:
    """Return what the other organisations reported, a row each; empty if they did not."""
    rows = [row for row in record.history if row["organisation"] != label_holder]
    # Each organisation chooses its own names, so one name may be of several types.
    return pl.DataFrame(rows, infer_schema_length=None, strict=False)


def summarise(
    record: RunRecord,
    history: pl.DataFrame,
    label_holder: str,
    *,
    method: str,
    metric: str,
    greater_is_better: bool,
    clock: Mapping[str, str],
    privacy: Mapping[str, str],
    late_is_lost: bool = True,
    warnings: list[str],
    details: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the account of a run.

    Bytes are lengths of bodies that were handed to the driver: for training (``bytes_up`` and
    ``bytes_down``, what was forwarded included, and ``bytes_between`` for what parties sent each
    other), to evaluate (``bytes_evaluation``), before the
    first round (``bytes_setup``). ``bytes_lost`` are bodies, of ``messages_lost``, that had left
    after the last checkpoint when a run was killed: they were sent again, and what replaced them is
    in the former numbers. ``bytes_framed`` are the bytes that streams carried for all ``messages``,
    those that were lost included: bodies, envelopes, and the length of each frame.
    ``messages_discarded`` came too late to be taken, with bodies of ``bytes_discarded`` in all;
    they count in the other numbers like any that were sent.
    Where an uplink needs only the first messages (``late_is_lost=False``) that is no loss, and no
    warning. ``local_updates`` are the steps of each organisation, by name, that it took without an
    exchange; ``local_reports`` is what it reported of them, where it did: sums of counts, such as
    of bubbles, and means of other numbers, such as cosines, over all its reports; ``held_back`` is
    the share of its time in training in which it waited although a batch was left for a step.
    ``seconds_training`` and ``seconds_evaluation`` are the label holder's, by what it worked or
    waited for: an evaluation begins with the wait for what training still has under way. Where
    evaluations take no time all of that is training.
    ``seconds_virtual`` is the simulator's clock at the end of the last role, evaluation included;
    ``clock`` says what of it was measured and what modelled. ``activities`` are the seconds of each
    organisation by purpose and kind of work (or ``"wait"``), on the driver's clock and in CPU time.
    """
    ledger = record.ledger.frame()
    kept, lost = ledger.filter(~pl.col("lost")), ledger.filter("lost")
    trains = pl.col("purpose").is_in(Purpose.training_labels())
    up, down = pl.col("receiver") == label_holder, pl.col("sender") == label_holder

    def bodies(*which: Any, **equal: str) -> int:
        return int(kept.filter(*which, **equal)["body_bytes"].sum())

    column = history[metric].drop_nulls() if metric in history.columns else pl.Series([])
    # A metric of a diverged model is not a number, which JSON does not know.
    scores = [float(score) if math.isfinite(score) else None for score in column]
    finite = [score for score in scores if score is not None]
    best = (max if greater_is_better else min)(finite, default=None)
    training, evaluation = _seconds_by_purpose(record, label_holder, clock)
    return {
        "method": method,
        "metric": metric,
        "greater_is_better": greater_is_better,
        "best": best,
        "best_round": None if best is None else _round_of(history, metric, best),
        "final": scores[-1] if scores else None,
        "test": _test_metrics(history) if record.completed else None,
        "completed": record.completed,
        "rounds": record.round,
        "local_updates": _local_updates(record),
        "local_reports": local_reports(history, others_history_frame(record, label_holder)),
        "held_back": _held_back(record),
        "messages": len(ledger),
        "messages_discarded": len(kept.filter("discarded")),
        "messages_lost": len(lost),
        "bytes_up": bodies(trains, up),
        "bytes_down": bodies(trains, down),
        "bytes_between": bodies(trains, ~up, ~down),
        "bytes_evaluation": bodies(purpose="evaluation"),
        "bytes_setup": bodies(purpose="setup"),
        "bytes_discarded": bodies("discarded"),
        "bytes_lost": int(lost["body_bytes"].sum()),
        "bytes_framed": int(ledger["framed_bytes"].sum()),
        "seconds_virtual": record.seconds_virtual,
        "seconds_training": training,
        "seconds_evaluation": evaluation,
        "seconds_cpu": record.seconds_cpu,
        "seconds_wall": record.seconds_wall,
        "clock": dict(clock),
        "activities": [
            {
                "organisation": role,
                "purpose": kind_purpose,
                "activity": activity,
                "count": spent.count,
                "seconds": spent.nanoseconds / 1e9,
                "seconds_cpu": spent.cpu_nanoseconds / 1e9,
            }
            for (role, kind_purpose, activity), spent in record.activities.items()
        ],
        "privacy": dict(privacy),
        "warnings": [*warnings, *(_late(kept) if late_is_lost else ())],
        **details,
    }


def rounding_errors(others: pl.DataFrame) -> dict[str, dict[str, float]]:
    """Return by how much rounding changed the embeddings of each party, as it said last.

    Root mean squares; nothing where nobody rounds, or says so.
    """
    if "rounding_error" not in others.columns:
        return {}
    said = others.drop_nulls("rounding_error").group_by("organisation", maintain_order=True).last()
    return {"rounding_error": dict(said.select("organisation", "rounding_error").rows())}


def _seconds_by_purpose(
    record: RunRecord, label_holder: str, clock: Mapping[str, str]
) -> tuple[float, float]:
    """Return the label holder's seconds of training and of evaluation.

    Where evaluations take no time they wait for work of training alone, so all is training.
    """
    spent = dict.fromkeys(("training", "evaluation"), 0)
    for (role, purpose, _), activity in record.activities.items():
        if role == label_holder and purpose in spent:
            spent[purpose] += activity.nanoseconds
    if "evaluation" in clock.get("untimed", "").split(", "):
        return sum(spent.values()) / 1e9, 0.0
    return spent["training"] / 1e9, spent["evaluation"] / 1e9


def _local_updates(record: RunRecord) -> dict[str, int]:
    """Return how many steps each organisation took without an exchange.

    Where the exact step of a round is work of its own, backward or update, they are the local
    steps; else the first of a round's local steps is the exact one.
    """
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for (role, _, kind), activity in record.activities.items():
        counts[role][kind] += activity.count
    return {
        role: max(0, kinds["local_step"] - (0 if _EXACT & set(kinds) else record.round))
        for role, kinds in counts.items()
    }


_EXACT = {"backward", "update"}


def _held_back(record: RunRecord) -> dict[str, float]:
    """Return the share of training in which each organisation was; nothing where nobody was."""
    spent: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for (role, purpose, kind), activity in record.activities.items():
        if purpose == Purpose.TRAINING.label:
            spent[role][kind] += activity.nanoseconds
    return {
        role: kinds[HELD_BACK] / sum(kinds.values())
        for role, kinds in spent.items()
        if kinds[HELD_BACK]
    }


def _late(ledger: pl.DataFrame) -> list[str]:
    """Return a warning for each organisation whose messages of training came too late."""
    training = ledger.filter(pl.col("purpose").is_in(Purpose.training_labels()))
    late = training.group_by("sender", maintain_order=True).agg(
        pl.len().alias("sent"), pl.col("discarded").sum()
    )
    return [
        f"{discarded} of the {sent} messages that {name} sent for training came too late to be of "
        "use, and were discarded"
        for name, sent, discarded in late.rows()
        if discarded
    ]


def _round_of(history: pl.DataFrame, metric: str, best: float) -> int:
    """Return the first round after which the metric had its best value."""
    return int(history.filter(pl.col(metric) == best)["round"][0])


def _test_metrics(history: pl.DataFrame) -> dict[str, float | None] | None:
    """Return the metrics of the finished model on the test rows, by name; None without those."""
    names = [name for name in history.columns if name.startswith("test_")]
    if not names or not len(history):
        return None
    values = {name.removeprefix("test_"): history[name][-1] for name in names}
    return {k: v if v is not None and math.isfinite(v) else None for k, v in values.items()}
