"""What a run has released of each row: committed before it leaves, and not undone by a crash."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from colonnade.effects import Purpose
from colonnade.errors import BudgetExhausted
from colonnade.links import Rows
from colonnade.privacy import Budget, Event, RowUses, Spending
from colonnade.uplinks.contract import Moment

__all__ = ["EACH_PARTY", "OWN", "SUMS", "Account", "Views"]

UPLOADED = "uploaded"

Views = Mapping[str, Callable[[Spending], Spending]]
"""By the name of an epsilon, whom it is towards, or among which neighbours; the first is reported.
"""

OWN: Views = {"epsilon": lambda spent: spent}
"""Of values that are each seen by themselves, by whomever."""

EACH_PARTY: Views = {
    **OWN,
    "epsilon_of_a_whole_sample": lambda spent: spent.under("sample"),
}
"""Of several parties' values, each seen by itself."""

SUMS: Views = {
    **OWN,
    "epsilon_towards_a_party": lambda spent: spent.seen_by(1),
    "epsilon_of_a_whole_sample": lambda spent: spent.under("sample"),
}
"""Of sums: the label holder sees them whole; a party, or who colludes with it, takes its terms off.
"""


class Account:
    """Counts the releases of rows, those too that a crash undid and a resumed run repeated.

    A run that goes back to a checkpoint finds in its journal what had left after it. It comes to
    the same moments again, of the same rows, and enters then what was released before beside what
    is released now: the noise is another, so both count. In a run that is declared a simulation
    the noise is the same, and tells nothing new.

    Parameters
    ----------
    rows
        Of the table.
    event
        What one use of a row is, by its purpose and how many parties' embeddings are in the sum.
    budget
        What may be disclosed of each row, and the delta that epsilon is told with.
    simulated
        Whether the run is declared a simulation.
    fewest
        How many may have been in a sum of which it is not known.
    views
        Which epsilons are told.
    kind
        What its records are called in the journal, where another account of the same organisation
        has records of its own.
    """

    def __init__(
        self,
        rows: int,
        event: Callable[[Purpose, int], Event],
        budget: Budget,
        simulated: bool,
        fewest: int = 1,
        views: Views = SUMS,
        kind: str = "spent",
    ) -> None:
        self._event, self._budget, self._fewest = event, budget, fewest
        self._simulated, self._views, self._kind = simulated, views, kind
        self._uses = RowUses(rows)
        self._read = 0  # records of the journal that are in the uses or pending
        self._pending: dict[tuple[int, int, int], list[int]] = {}

    def begin(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Take up what was committed after the checkpoint that the run goes on from."""
        told = [record for record in records if self._kind in record or UPLOADED in record]
        left = told[self._read :]
        self._read = len(told)
        if self._simulated:
            return
        unsettled: list[tuple[int, int, int]] = []
        for record in left:
            if UPLOADED in record:
                unsettled.append(_moment(record[UPLOADED]))
                continue
            *moment, terms = record[self._kind]
            self._pending.setdefault(_moment(moment), []).append(terms)
            if unsettled and unsettled[-1] == _moment(moment):
                unsettled.pop()
        for moment in unsettled:  # whether the sum was completed without this organisation
            self._pending.setdefault(moment, []).append(self._fewest)

    def uploading(self, moment: Moment) -> dict[str, Any]:
        """Return the record to commit before something is sent that others may release."""
        self._read += 1
        return {UPLOADED: [moment.round, int(moment.purpose), moment.part]}

    def enter(self, rows: Rows, moment: Moment, terms: int = 1) -> dict[str, Any]:
        """Enter a release, and return the record to commit before what completes it is sent.

        Raises
        ------
        BudgetExhausted
            If that would disclose more of a row than the budget allows; then nothing is entered.
        """
        before = self._pending.get((moment.round, moment.purpose, moment.part), [])
        events = [self._event(moment.purpose, count) for count in (*before, terms)]
        spent = self._uses.worst(rows)
        for event in events:
            spent = spent + _once(event)
        if not self._budget.affords(spent):
            raise BudgetExhausted(
                f"with round {moment.round} ({moment.purpose.label}) a row would be at epsilon "
                f"{spent.epsilon(self._budget.delta).value:.4g}, and the budget is "
                f"{self._budget.epsilon:g} at delta {self._budget.delta:g}; what was repeated "
                "after a crash counts twice: raise the budget to go on from the last checkpoint"
            )
        for event in events:
            self._uses.add(event, rows)
        self._pending.pop((moment.round, moment.purpose, moment.part), None)
        self._read += 1
        return {self._kind: [moment.round, int(moment.purpose), moment.part, terms]}

    def report(self) -> dict[str, float]:
        """Return the epsilon that was spent until now, for the history."""
        name, seen = next(iter(self._views.items()))
        return {name: self._worst(seen)}

    def spent(self) -> dict[str, Any]:
        """Return what was spent, towards whom, for the summary.

        Each epsilon is of the row that most is known of.
        """
        most = self._uses.worst()
        return {
            **{name: self._worst(seen) for name, seen in self._views.items()},
            "delta": self._budget.delta,
            "budget": None if math.isinf(self._budget.epsilon) else self._budget.epsilon,
            "uses_of_a_row": sum(count for _, count in most),
        }

    def _worst(self, seen: Callable[[Spending], Spending]) -> float:
        delta = self._budget.delta
        return max(seen(spent).epsilon(delta).value for spent in self._uses.most_spent())

    def state_dict(self) -> dict[str, Any]:
        """Return what was counted, and how far the journal was read."""
        pending = [[*moment, *terms] for moment, terms in self._pending.items()]
        return {"uses": self._uses.state_dict(), "read": self._read, "pending": pending}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        self._uses.load_state_dict(state["uses"])
        self._read = state["read"]
        self._pending = {_moment(told[:3]): list(told[3:]) for told in state["pending"]}


def _once(event: Event) -> Spending:
    return Spending({event: 1})


def _moment(told: Sequence[int]) -> tuple[int, int, int]:
    round, purpose, part = told
    return round, purpose, part
