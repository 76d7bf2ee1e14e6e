"""What a run has released of each row: committed before it leaves, and not undone by a crash."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from colonnade.effects import Purpose
from colonnade.errors import BudgetExhausted
from colonnade.links import Rows
from colonnade.privacy import Budget, Epsilon, Event, RowUses, Spending, View
from colonnade.uplinks.contract import Moment, Timetable

__all__ = [
    "EACH_PARTY",
    "OWN",
    "SUMS",
    "Account",
    "Views",
    "most_told",
    "told",
    "told_of_predictions",
]

UPLOADED = "uploaded"

Views = Mapping[str, View]
"""By the name of a further epsilon, whom it is towards, or among which neighbours."""


def _of_a_whole_sample(spent: Spending) -> Spending:
    return spent.under("sample")


def _towards_a_party(spent: Spending) -> Spending:
    return spent.seen_by(1)


OWN: Views = {}
"""Of values that are each seen by themselves, by whomever."""

EACH_PARTY: Views = {"epsilon_of_a_whole_sample": _of_a_whole_sample}
"""Of several parties' values, each seen by itself."""

SUMS: Views = {"epsilon_towards_a_party": _towards_a_party, **EACH_PARTY}
"""Of sums: the label holder sees them whole, a party takes its own terms off."""


class Account:
    """Counts the releases of rows, those too that a crash undid.

    A run that goes back to a checkpoint finds in its journal what had left after it, and enters it
    at once: of which rows, the timetable tells from the moment. It may come to the same moments
    again, with other noise, so both count, or never, as where training ends earlier now. In a run
    that is declared a simulation the noise is the same, and tells nothing new.

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
        self._made_of: dict[Event, tuple[Purpose, int]] = {}  # what makes the events in the uses
        self._read = 0  # records of the journal that are in the uses

    def begin(self, records: Sequence[Mapping[str, Any]], timetable: Timetable) -> None:
        """Enter what was committed after the checkpoint that the run goes on from.

        It has left, whether or not a budget affords it.

        Raises
        ------
        BudgetExhausted
            If more was disclosed of a row, then or before, than the budget allows.
        """
        told = [record for record in records if self._kind in record or UPLOADED in record]
        left = told[self._read :]
        self._read = len(told)
        if self._simulated:
            return
        unsettled: list[Moment] = []
        for record in left:
            if UPLOADED in record:
                unsettled.append(_moment(record[UPLOADED]))
                continue
            *moment, terms = record[self._kind]
            self._add(timetable.rows_at(_moment(moment)), _moment(moment), terms)
            if unsettled and unsettled[-1] == _moment(moment):
                unsettled.pop()
        for moment in unsettled:  # whether the sum was completed without this organisation
            self._add(timetable.rows_at(moment), moment, self._fewest)
        self._check_afforded()

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
        event = self._event(moment.purpose, terms)
        # One spending that contains those of all rows is within the budget in nearly all cases.
        together = self._uses.worst(rows) + Spending({event: 1})
        if not self._budget.affords(together) and (
            (spent := self._with(rows, event).value) > self._budget.epsilon
        ):
            raise BudgetExhausted(
                f"with round {moment.round} ({moment.purpose.label}) a row would be at epsilon "
                f"{spent:.4g}, and the budget is {self._budget.epsilon:g} at delta "
                f"{self._budget.delta:g}; each release counts, of what is repeated after a crash "
                "too: go on from the last checkpoint (resume) with a larger budget"
            )
        self._add(rows, moment, terms)
        self._read += 1
        return {self._kind: [moment.round, int(moment.purpose), moment.part, terms]}

    def _with(self, rows: Rows, event: Event) -> Epsilon:
        """Return the largest epsilon of these rows, if each were used once more."""
        uses = self._uses.of_rows(rows)
        uses.add(event, range(uses.rows))
        return uses.epsilon(self._budget.delta)

    def _add(self, rows: Rows, moment: Moment, terms: int) -> None:
        event = self._event(moment.purpose, terms)
        self._made_of.setdefault(event, (moment.purpose, terms))
        self._uses.add(event, rows)

    def report(self) -> dict[str, float]:
        """Return the epsilon that was spent until now, for the history."""
        return {"epsilon": self._uses.epsilon(self._budget.delta).value}

    def spent(self) -> dict[str, Any]:
        """Return what was spent, towards whom, for the summary; see ``told``."""
        return told(self._uses, self._budget, self._views)

    def state_dict(self) -> dict[str, Any]:
        """Return what was counted, of what events are made, and how far the journal was read."""
        made_of = [self._made_of[event] for event in self._uses.events]
        return {
            "uses": self._uses.state_dict(),
            "read": self._read,
            "made_of": [[int(purpose), terms] for purpose, terms in made_of],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned.

        Raises
        ------
        BudgetExhausted
            If more had been disclosed of a row than the budget allows, which was larger then.
        """
        made_of = [(Purpose(purpose), terms) for purpose, terms in state["made_of"]]
        events = [self._event(purpose, terms) for purpose, terms in made_of]
        self._made_of = dict(zip(events, made_of, strict=True))
        self._uses.load_state_dict(state["uses"], events)
        self._read = state["read"]
        self._check_afforded()

    def _check_afforded(self) -> None:
        """Raise ``BudgetExhausted`` if more was disclosed of a row than the budget allows."""
        budget, uses = self._budget, self._uses
        if budget.affords(uses.worst()):  # which contains what was spent on any row
            return
        for spent in uses.spendings(budget.delta):
            if not budget.affords(spent):
                raise BudgetExhausted(
                    f"a row is at epsilon {spent.epsilon(budget.delta).value:.4g} by what this run "
                    f"may have released, and the budget is {budget.epsilon:g} at delta "
                    f"{budget.delta:g}: go on (resume) with a larger one"
                )


def told(uses: RowUses, budget: Budget, views: Views = SUMS) -> dict[str, Any]:
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
    >>> found = told(RowUses.of([Spending({BinomialSum(16, 0.1, 4): 2})]), Budget(8.0, 1e-5))
    >>> round(found["epsilon"], 1), found["uses_of_a_row"], found["budget"]
    (5.3, 2, 8.0)
    """
    delta = budget.delta
    most, found = uses.largest(delta)
    whole = {"epsilon": _number(found.value), "bound": found.by}
    if math.isinf(found.value):
        noisy, of_noisy = uses.bounded(delta).largest(delta)
        whole["epsilon_with_noise"] = of_noisy.value if noisy else None
    elif found.value and math.isfinite(found.order):
        whole |= {
            "order": found.order,
            "renyi": float(most.renyi([found.order])[0]),
        }
        grown = [(event.growth(found.order), count) for event, count in most]
        if all(growth is not None for growth, _ in grown):
            whole["renyi_in_the_paper"] = sum(count * (growth or 0.0) for growth, count in grown)
    others = {name: uses.largest(delta, view=view)[1] for name, view in views.items()}
    return whole | {
        **{name: _number(found.value) for name, found in others.items()},
        "delta": delta,
        "budget": _number(budget.epsilon),
        "uses_of_a_row": sum(count for _, count in most),
    }


def told_of_predictions(
    times: Mapping[int, int], event: Callable[[int], Event], budget: Budget, views: Views = SUMS
) -> dict[str, Any]:
    """Return what predictions disclosed of a row that was in all of them; see ``told``.

    Parameters
    ----------
    times
        By how many parties took part, how often.
    event
        By how many parties take part, what one is.
    budget, views
        See ``told``.

    >>> from functools import partial
    >>> from colonnade.privacy import UNLIMITED, BinomialSum
    >>> event = partial(BinomialSum, 16, 0.1)  # of so many terms
    >>> times = [{4: 2}, {2: 1, 4: 1}, {2: 2}]
    >>> [round(told_of_predictions(each, event, UNLIMITED)["epsilon"], 1) for each in times]
    [5.3, 6.6, 7.8]
    """
    spent = [Spending({event(parties): 1}) * count for parties, count in times.items()]
    return told(RowUses.of([sum(spent, Spending())]), budget, views)


def most_told(accounts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what was spent at most, as several organisations tell it; empty if nobody does.

    What left a party before a crash, and its label holder never came to, only the party knows. So
    it is the account of whom the largest epsilon is told by, as a whole; further epsilons are the
    largest that anybody tells.

    >>> most_told([{"epsilon": 2.0, "uses_of_a_row": 1}, {"epsilon": 3.0, "uses_of_a_row": 2}])
    {'epsilon': 3.0, 'uses_of_a_row': 2}
    """
    kept = [account for account in accounts if account]
    if not kept:
        return {}

    def value(account: Mapping[str, Any], name: str) -> float:
        nothing = 0.0 if name == "epsilon_with_noise" else math.inf  # no such rows; no bound
        epsilon: float | None = account[name]
        return nothing if epsilon is None else epsilon

    largest = max(kept, key=lambda account: value(account, "epsilon"))
    most = dict(largest)
    for name in (name for name in most if name.startswith("epsilon_")):
        also = [account for account in kept if name in account]
        most[name] = max(also, key=lambda account: value(account, name))[name]
    return most


def _number(value: float) -> float | None:
    """Return a number that JSON knows; None for what nothing bounds."""
    return value if math.isfinite(value) else None


def _moment(told: Sequence[int]) -> Moment:
    round, purpose, part = told
    return Moment(round, Purpose(purpose), part)
