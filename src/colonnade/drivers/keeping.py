"""An organisation's own checkpoints: written where its role is played, and shown to nobody."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from colonnade.checkpoints import Checkpoint, CheckpointStore, decode_state
from colonnade.drivers.account import Account
from colonnade.drivers.cut import Cut
from colonnade.drivers.driver import Assignment, lost_before
from colonnade.effects import Role
from colonnade.ledger import Ledger
from colonnade.wire import Message

__all__ = ["Keeper", "seconds_of"]


class Keeper:
    """Keeps the checkpoints of one role, each a cut of it alone, with what it has sent.

    All roles of a run save at the same gate, so the newest round that everybody holds is a
    consistent cut. Nobody passes a gate before all have saved at it, so two checkpoints at each
    organisation suffice to have one in common.

    Parameters
    ----------
    store
        Where they go.
    name
        The role's name.
    assignment
        What the run goes on from, and where departures are.
    receivers
        To whom the role may have sent.
    """

    def __init__(
        self, store: CheckpointStore, name: str, assignment: Assignment, receivers: Iterable[str]
    ) -> None:
        self.store, self.name = store, name
        self.ledger = Ledger()
        self.cut = Cut(assignment.first_round)
        self._wall, self._cpu = -time.perf_counter(), -time.process_time()
        if assignment.resume is not None:
            self.cut, self.ledger = Cut.read(assignment.resume, [name])
            self._wall += seconds_of(assignment.resume)
            self._cpu += assignment.resume.account["seconds_cpu"]
        stored = self.cut.accounts.get(name)
        self.account = Account() if stored is None else Account.from_json(stored)
        accounts = {name: self.account}
        self.ledger.extend(lost_before(assignment, [name], accounts, receivers))

    def restore(self, role: Role) -> None:
        """Give a role the state that it goes on from, if there is one."""
        if self.name in self.cut.states:
            role.load_state_dict(decode_state(self.cut.states[self.name]))

    @property
    def mail(self) -> list[tuple[Message, int]]:
        """What was under way to it, each with its time of arrival in nanoseconds."""
        return self.cut.mail.get(self.name, [])

    def keep(
        self,
        round: int,
        state: bytes,
        account: Account,
        mail: Sequence[tuple[Message, int]] = (),
    ) -> None:
        """Write the checkpoint before ``round``.

        Raises
        ------
        Unwritten
            If the disk does not take it.
        """
        told: dict[str, Any] = account.as_json()
        cut = Cut(round, {self.name: state}, {self.name: told}, {self.name: list(mail)})
        seconds = self._wall + time.perf_counter(), self._cpu + time.process_time()
        cut.write(self.store, self.ledger, *seconds)


def seconds_of(checkpoint: Checkpoint) -> float:
    """Return how long the run had taken when a checkpoint was written."""
    return float(checkpoint.account["seconds_wall"])
