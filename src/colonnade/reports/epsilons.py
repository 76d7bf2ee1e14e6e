"""What a run's account of privacy says, in the words that consoles and pages show."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, Context
from typing import Any

from colonnade.runs import Run

__all__ = ["epsilon_columns", "epsilon_facts", "epsilon_line", "epsilon_notes", "human_epsilon"]

_UPWARDS = Context(prec=3, rounding=ROUND_CEILING)

_TOWARDS = {
    "epsilon": "epsilon towards the label holder",
    "epsilon_with_noise": "epsilon where there was noise",
    "epsilon_towards_a_party": "epsilon towards a party",
    "epsilon_of_a_whole_sample": "epsilon of a whole sample",
}
"""How each figure of ``summary["privacy_loss"]`` is called."""


def human_epsilon(value: float | None) -> str:
    """Return an epsilon with three significant digits or more; a word where there is none.

    It is rounded up, as it is an upper bound.

    >>> human_epsilon(0.01234), human_epsilon(3689.2), human_epsilon(14.3), human_epsilon(None)
    ('0.0124', '3690', '14.3', 'no bound')
    """
    if value is None:
        return "no bound"
    if value >= 100:
        return f"{math.ceil(value)}"
    return f"{float(_UPWARDS.create_decimal(repr(float(value)))):.3g}"


_OF_LABELS = {"epsilon": "epsilon of labels towards the parties"}
"""The same of ``summary["privacy_loss_of_labels"]``."""


def epsilon_facts(
    loss: Mapping[str, Any] | None, of_labels: Mapping[str, Any] | None = None
) -> list[tuple[str, str]]:
    """Return the figures of accounts, and what they hold for; none where none was kept.

    >>> epsilon_facts({"epsilon": 3.0, "delta": 1e-05, "budget": 8.0, "uses_of_a_row": 2})
    [('epsilon towards the label holder', '3 of 8'), ('delta', '1e-05, with 2 uses of a row')]
    """
    return [*_facts(loss, _TOWARDS), *_facts(of_labels, _OF_LABELS, " of labels")]


def _facts(
    loss: Mapping[str, Any] | None, names: Mapping[str, str], of: str = ""
) -> list[tuple[str, str]]:
    if not loss:
        return []
    facts = [(said, human_epsilon(loss[key])) for key, said in names.items() if key in loss]
    if loss.get("budget") is not None:
        facts[0] = facts[0][0], f"{facts[0][1]} of {loss['budget']:g}"
    uses = f"{loss['delta']:g}, with {loss['uses_of_a_row']:,} uses of a row"
    return [*facts, (f"delta{of}", uses)]


def epsilon_line(summary: Mapping[str, Any]) -> str | None:
    """Return a run's accounts in a line, for a console; None where none was kept."""
    facts = epsilon_facts(summary.get("privacy_loss"), summary.get("privacy_loss_of_labels"))
    return ", ".join(f"{name} {said}" for name, said in facts) if facts else None


def epsilon_columns(runs: Mapping[str, Run]) -> dict[str, list[str]]:
    """Return each run's epsilons as columns, by whom they are towards; none if no run has one.

    A run that keeps no account has no bound; "not told" is what an account leaves out.
    """
    accounts = {
        heading: [run.summary.get(account) for run in runs.values()]
        for heading, (account, _) in _COLUMNS.items()
    }
    return {
        heading: [
            human_epsilon(None) if not loss else _told(loss, _COLUMNS[heading][1])
            for loss in losses
        ]
        for heading, losses in accounts.items()
        if any(loss and _COLUMNS[heading][1] in loss for loss in losses)
    }


def epsilon_notes(runs: Mapping[str, Run]) -> list[str]:
    """Return with which delta the epsilons of a table hold; nothing where there are none."""
    said: dict[str, list[str]] = {}
    for name, run in runs.items():
        if deltas := _deltas(run.summary):
            said.setdefault(deltas, []).append(name)
    if len(said) <= 1:
        return list(said)
    return [f"{', '.join(names)}: {deltas}" for deltas, names in said.items()]


def _deltas(summary: Mapping[str, Any]) -> str:
    accounts = (("epsilon", "privacy_loss"), ("epsilon of labels", "privacy_loss_of_labels"))
    losses = ((name, summary.get(account)) for name, account in accounts)
    return ", ".join(f"{name} at delta {loss['delta']:g}" for name, loss in losses if loss)


_COLUMNS = {
    "epsilon, label holder": ("privacy_loss", "epsilon"),
    "epsilon, a party": ("privacy_loss", "epsilon_towards_a_party"),
    "epsilon, labels": ("privacy_loss_of_labels", "epsilon"),
}
"""By its heading, which account's figure a column has."""


def _told(loss: Mapping[str, Any], key: str) -> str:
    return human_epsilon(loss[key]) if key in loss else "not told"
