"""A consistent cut through a running federation: what a checkpoint holds.

Roles do not stop together. The cut before round r takes each role's state at its own boundary of
r, and every message that was sent before its sender's boundary but not yet taken at its receiver's
(Chandy and Lamport, "Distributed snapshots", 1985). Going on from a cut is therefore going on from
a state that the federation could have been in, whatever the order in which roles reached it.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from colonnade.checkpoints import Checkpoint, CheckpointStore, decode_state, encode_state
from colonnade.drivers.mailbox import is_closed
from colonnade.effects import Role
from colonnade.errors import CheckpointError
from colonnade.ledger import Ledger
from colonnade.wire import Message, Purpose

__all__ = ["Cut", "saved_state"]

_MAIL = ".mail.safetensors"  # no organisation's name begins with a dot, so none has this file
_LEDGER = "ledger.parquet"
_SETTLED = ".ledger-{:06d}.parquet"


def saved_state(role: Role) -> bytes:
    """Return a role's state as it goes into a checkpoint.

    Raises
    ------
    CheckpointError
        If it holds what cannot be saved; the role is named.
    """
    try:
        return encode_state(role.state_dict())
    except CheckpointError as error:
        raise CheckpointError(f"at {role.name}: {error}") from None


@dataclass
class Cut:
    """The state of every role, its account, and the messages under way to it.

    ``mail`` holds each message with its time of arrival in nanoseconds; ``doomed`` those under way,
    by (sender, sequence), that their receiver will discard because it has closed their round.
    """

    round: int
    states: dict[str, bytes] = field(default_factory=dict)
    accounts: dict[str, dict[str, Any]] = field(default_factory=dict)
    mail: dict[str, list[tuple[Message, int]]] = field(default_factory=dict)
    doomed: set[tuple[str, int]] = field(default_factory=set)

    def hold(
        self, receiver: str, message: Message, arrival: int, *, occupies: bool = False
    ) -> None:
        """Add a message that is under way to a role whose account is in the cut already.

        ``occupies`` says that it takes others' time until it is there: then it is added though its
        receiver will discard it.
        """
        if is_closed(message, self.accounts[receiver]["closed"]) and not occupies:
            self.doomed.add((message.sender, message.sequence))
        else:
            self.mail[receiver].append((message, arrival))

    def write(
        self, store: CheckpointStore, ledger: Ledger, seconds_wall: float, seconds_cpu: float
    ) -> None:
        """Write the cut as a checkpoint, with the part of ``ledger`` that belongs to it.

        One that is there already is left alone: what it holds is the same, but for how far the
        journals have come since.
        """
        if store.holds(self.round):
            return
        draft = store.draft(self.round)
        for name, state in self.states.items():
            draft.write(f"{name}.safetensors", state)
        mail = {
            name: [
                (m.sender, m.kind, int(m.purpose), m.round, m.sequence, m.body, arrival, m.part)
                for m, arrival in messages
            ]
            for name, messages in self.mail.items()
        }
        draft.write(_MAIL, encode_state(mail))
        sequences = {name: account["sequence"] for name, account in self.accounts.items()}
        under_way = {(m.sender, m.sequence) for sent in self.mail.values() for m, _ in sent}
        ledger.settle(sequences, under_way | self.doomed)
        for number, segment in enumerate(ledger.settled):
            draft.write(_SETTLED.format(number), segment)
        parquet = io.BytesIO()
        part = ledger.unsettled(sequences)
        # By now more may have been discarded than had been when the receiver was at its boundary.
        for messages in self.mail.values():
            for message, _ in messages:
                part.discard(message.sender, message.sequence, discarded=False)
        for sender, sequence in self.doomed:
            part.discard(sender, sequence)
        part.frame().write_parquet(parquet)
        draft.write(_LEDGER, parquet.getvalue())
        account = {
            "roles": self.accounts,
            "seconds_wall": seconds_wall,
            "seconds_cpu": seconds_cpu,
        }
        store.commit(draft, self.round, account)

    @classmethod
    def read(cls, checkpoint: Checkpoint, names: list[str]) -> tuple[Cut, Ledger]:
        """Read a checkpoint of the roles ``names``, and its ledger.

        Raises
        ------
        CheckpointError
            If it was written for other roles.
        """
        accounts = checkpoint.account["roles"]
        if sorted(accounts) != sorted(names):
            raise CheckpointError(
                f"{checkpoint.folder} holds the roles {', '.join(sorted(accounts))}, "
                f"but this run has {', '.join(sorted(names))}"
            )
        mail = {
            name: [
                (
                    Message(sender, name, kind, Purpose(purpose), round, sequence, body, *part),
                    arrival,
                )
                # an older checkpoint tells no parts
                for sender, kind, purpose, round, sequence, body, arrival, *part in messages
            ]
            for name, messages in decode_state(checkpoint.read(_MAIL)).items()
        }
        states = {name: checkpoint.read(f"{name}.safetensors") for name in names}
        settled: list[bytes] = []
        while (name := _SETTLED.format(len(settled))) in checkpoint.manifest["files"]:
            settled.append(checkpoint.read(name))
        rest = pl.read_parquet(io.BytesIO(checkpoint.read(_LEDGER)))
        ledger = Ledger.restored(settled, rest)
        return cls(checkpoint.round, states, accounts, mail), ledger
