"""Budgets: how much may be disclosed, and what can still be done within it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isinf

from colonnade.annotated import is_number, make_plain
from colonnade.errors import ConfigurationError
from colonnade.privacy.accountant import Spending, check_delta
from colonnade.privacy.events import Event

__all__ = ["UNLIMITED", "Budget", "check_budget"]

_MOST_USES = 1 << 40


@dataclass(frozen=True)
class Budget:
    """Training may use no row beyond (epsilon, delta)-differential privacy.

    Evaluations count with it. Predictions do not: a run cannot know whose rows it is given, so it
    tells of each what it costs and lets it pass. Nor do other runs on the same rows.

    Parameters
    ----------
    epsilon
        What may be disclosed of each row, in nats.
    delta
        The probability with which more may be; well below one over the number of rows.

    Raises
    ------
    ConfigurationError
        If epsilon is not a number of at least 0, or delta not in [0, 1).

    Examples
    --------
    >>> from colonnade.privacy import GaussianNoise, Spending
    >>> budget, event = Budget(epsilon=5.0, delta=1e-5), GaussianNoise(2.0)
    >>> budget.uses(event)
    5
    >>> budget.affords(Spending({event: 5})), budget.affords(Spending({event: 6}))
    (True, False)
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        make_plain(Budget, self)
        if not (is_number(self.epsilon) and self.epsilon >= 0):
            raise ConfigurationError(
                f"epsilon is {self.epsilon!r}, but a budget says how much may be disclosed: give a "
                "number of at least 0"
            )
        check_delta(self.delta)

    def affords(self, spent: Spending) -> bool:
        """Return whether so much is proven to stay within the budget."""
        if isinf(self.epsilon):
            return True
        if spent.epsilon_by_renyi(self.delta).renyi <= self.epsilon:
            return True
        return spent.epsilon(self.delta).value <= self.epsilon

    def uses(self, event: Event, spent: Spending | None = None) -> int:
        """Return how many more uses of an event a row affords on which so much was spent.

        What is affordable stays so with fewer uses, as what is disclosed never shrinks. More than
        2^40 uses are not told apart.
        """
        spent = spent or Spending()

        def cheaply(uses: int) -> bool:
            whole = spent + Spending({event: uses})
            return whole.epsilon_by_renyi(self.delta).renyi <= self.epsilon

        def at_all(uses: int) -> bool:
            return self.affords(spent + Spending({event: uses}))

        least = _most(cheaply, 0) if cheaply(0) else 0
        return _most(at_all, least) if at_all(least) else 0


UNLIMITED = Budget(inf, 1e-5)
"""What is spent where nobody set a limit, and the delta that epsilon is then told with."""


def check_budget(budget: object) -> None:
    """Raise ``ConfigurationError`` unless something is a budget, or None for none."""
    if budget is not None and not isinstance(budget, Budget):
        raise ConfigurationError(
            f"budget is {budget!r}, but it has an epsilon and a delta: say "
            "budget=Budget(epsilon=10, delta=1e-5), of colonnade.privacy"
        )


def _most(affordable: Callable[[int], bool], known: int) -> int:
    """Return the largest number that is affordable, from one on that is."""
    step = max(1, known // 8)
    while affordable(known + step):
        known, step = known + step, 2 * step
        if known >= _MOST_USES:
            return _MOST_USES
    low, high = known, known + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if affordable(middle) else (low, middle)
    return low
