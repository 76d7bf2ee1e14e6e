"""What a run has released of each row: committed before it leaves, and not undone by a crash."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from colonnade.effects import Purpose
from colonnade.errors import BudgetExhausted
from colonnade.links import Rows
from colonnade.privacy import Budget, Epsilon, Event, RowUses, Spending
from colonnade.uplinks.contract import Moment

__all__ = ["EACH_PARTY", "OWN", "SUMS", "Account", "Views", "told"]

UPLOADED = "uploaded"

Views = Mapping[str, Callable[[Spending], Spending]]
"""By the name of a further epsilon, whom it is towards, or among which neighbours."""

OWN: Views = {}
"""Of values that are each seen by themselves, by whomever."""

EACH_PARTY: Views = {"epsilon_of_a_whole_sample": lambda spent: spent.under("sample")}
"""Of several parties' values, each seen by itself."""

SUMS: Views = {"epsilon_towards_a_party": lambda spent: spent.seen_by(1), **EACH_PARTY}
"""Of sums: the label holder sees them whole, a party takes its own terms off."""


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
        Which further epsilons are told.
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
        return {"epsilon": _worst(self._uses.most_spent(), self._budget.delta).value}

    def spent(self) -> dict[str, Any]:
        """Return what was spent, towards whom, for the summary; see ``told``."""
        return told(self._uses.most_spent(), self._budget, self._views)

    def state_dict(self) -> dict[str, Any]:
        """Return what was counted, and how far the journal was read."""
        pending = [[*moment, *terms] for moment, terms in self._pending.items()]
        return {"uses": self._uses.state_dict(), "read": self._read, "pending": pending}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        self._uses.load_state_dict(state["uses"])
        self._read = state["read"]
        self._pending = {_moment(told[:3]): list(told[3:]) for told in state["pending"]}


def told(rows: Sequence[Spending], budget: Budget, views: Views = SUMS) -> dict[str, Any]:
    """Return what was spent on some rows, for summaries and plans: as JSON values.

    Each epsilon is of the row that most is known of, and None where nothing bounds it; of those
    towards others there are those of ``views``.

    - ``epsilon``: towards the label holder, which sees sums, or each value, where one party's
      features of a row are another's (of labels: towards the parties, where a row's label is
      another); ``bound`` says by which bound, ``delta`` with what probability it may fail;
    - ``epsilon_towards_a_party``: the same towards a party, which also knows its own term of them,
      or whoever it colludes with;
    - ``epsilon_of_a_whole_sample``: where all of a row may be another's;
    - ``epsilon_with_noise``: of those rows alone that were never released without noise, where
      there are others, such as rows that are evaluated by exact sums;
    - ``order`` and ``renyi``: the Renyi divergence that converts best, and ``renyi_in_the_paper``
      the order of growth that the paper gives for it, which is no bound;
    - ``uses_of_a_row``: how often that row was released.

    >>> from colonnade.privacy import BinomialSum
    >>> found = told([Spending({BinomialSum(16, 0.1, 4): 2})], Budget(8.0, 1e-5))
    >>> round(found["epsilon"], 1), found["uses_of_a_row"], found["budget"]
    (5.3, 2, 8.0)
    """
    delta = budget.delta
    most = max(rows, key=lambda spent: spent.epsilon(delta).value)
    found = most.epsilon(delta)
    whole = {"epsilon": _number(found.value), "bound": found.by}
    if math.isinf(found.value):
        noisy = [spent for spent in rows if math.isfinite(spent.epsilon(delta).value)]
        whole["epsilon_with_noise"] = _worst(noisy, delta).value if noisy else None
    elif found.value and math.isfinite(found.order):
        whole |= {
            "order": found.order,
            "renyi": float(most.renyi([found.order])[0]),
        }
        grown = [(event.growth(found.order), count) for event, count in most]
        if all(growth is not None for growth, _ in grown):
            whole["renyi_in_the_paper"] = sum(count * (growth or 0.0) for growth, count in grown)
    others = {name: _worst([view(spent) for spent in rows], delta) for name, view in views.items()}
    return whole | {
        **{name: _number(found.value) for name, found in others.items()},
        "delta": delta,
        "budget": _number(budget.epsilon),
        "uses_of_a_row": sum(count for _, count in most),
    }


def _worst(rows: Sequence[Spending], delta: float) -> Epsilon:
    return max((spent.epsilon(delta) for spent in rows), key=lambda found: found.value)


def _number(value: float) -> float | None:
    """Return a number that JSON knows; None for what nothing bounds."""
    return value if math.isfinite(value) else None


def _once(event: Event) -> Spending:
    return Spending({event: 1})


def _moment(told: Sequence[int]) -> tuple[int, int, int]:
    round, purpose, part = told
    return round, purpose, part
