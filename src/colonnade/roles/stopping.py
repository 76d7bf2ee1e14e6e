"""Early stopping, and going back to the best model: the label holder judges, all follow.

Only the label holder sees the metric. After each evaluation it sends every party its verdict, a
byte: whether this model is the best so far (each organisation then keeps a copy of its own part),
and whether training ends here. Verdicts are messages like any other, with their bytes in the
ledger, so that all organisations stop at the same round under every driver.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from enum import IntFlag
from typing import Any

from colonnade.errors import RemoteProtocolError
from colonnade.models import Learner, put_state, state_of
from colonnade.training import EarlyStopping

__all__ = ["BestParts", "Judge", "Verdict", "decode_verdict", "encode_verdict"]


class Verdict(IntFlag):
    """What an evaluation means for the parties."""

    GO_ON = 0
    BEST = 1
    STOP = 2


def encode_verdict(verdict: Verdict) -> bytes:
    """Return the body of a verdict: one byte.

    >>> list(encode_verdict(Verdict.BEST | Verdict.STOP))
    [3]
    """
    return bytes([verdict])


def decode_verdict(body: bytes) -> Verdict:
    """Return the verdict of a body.

    Raises
    ------
    RemoteProtocolError
        If it is none.
    """
    if len(body) != 1 or body[0] > Verdict.BEST | Verdict.STOP:
        raise RemoteProtocolError(f"a verdict is a byte from 0 to 3, not {body[:8].hex()!r}")
    return Verdict(body[0])


class Judge:
    """The label holder's memory of the evaluations so far.

    Parameters
    ----------
    rule
        When to end.
    metric
        The name of the value that is watched.
    greater_is_better
        Its direction.

    Examples
    --------
    >>> judge = Judge(EarlyStopping(patience=2), "auc", greater_is_better=True)
    >>> [judge.hear(round, {"auc": value}).name for round, value in enumerate([0.6, 0.7, 0.7, 0.6])]
    ['BEST', 'BEST', 'GO_ON', 'STOP']
    >>> judge.best_round
    1
    """

    def __init__(self, rule: EarlyStopping, metric: str, greater_is_better: bool) -> None:
        self.best_round: int | None = None
        self._rule = rule
        self._metric = metric
        self._sign = 1.0 if greater_is_better else -1.0
        self._best = -math.inf
        self._stale = 0

    def hear(self, round: int, values: Mapping[str, float]) -> Verdict:
        """Return what the values of an evaluation mean; one that is not a number is no gain."""
        value = self._sign * values[self._metric]
        value = value if math.isfinite(value) else -math.inf
        # The first is the best so far, however bad it is: there must be one to go back to.
        if self.best_round is None or value > self._best + self._rule.min_delta:
            self.best_round = round
            self._best = value
            self._stale = 0
            return Verdict.BEST
        self._stale += 1
        patience = self._rule.patience
        return Verdict.STOP if patience is not None and self._stale >= patience else Verdict.GO_ON

    def state_dict(self) -> dict[str, Any]:
        """Return all durable state."""
        best = self._best if math.isfinite(self._best) else None
        return {"best_round": self.best_round, "best": best, "stale": self._stale}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        self.best_round = state["best_round"]
        self._best = -math.inf if state["best"] is None else state["best"]
        self._stale = state["stale"]


class BestParts:
    """An organisation's own copy of its models as they were at the best evaluation.

    Parameters
    ----------
    learners
        The models it copies and puts back.
    """

    def __init__(self, learners: Sequence[Learner]) -> None:
        self._learners = learners
        self._kept: list[dict[str, Any]] = []

    def keep(self) -> None:
        """Copy the models as they are now."""
        self._kept = [copy.deepcopy(state_of(learner.module)) for learner in self._learners]

    def put_back(self) -> None:
        """Give the models their best parameters again, if any were kept."""
        for learner, kept in zip(self._learners, self._kept, strict=False):
            put_state(learner.module, kept)

    def state_dict(self) -> dict[str, Any]:
        """Return all durable state."""
        return {"kept": self._kept}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        self._kept = [dict(kept) for kept in state["kept"]]
