"""How messages move on the virtual clock: through gateways and channels, each one after another.

A message leaves its sender's gateway, if there is one, when all of it has passed; then it occupies
the channel to its receiver; a latency later it is there, and passes the receiver's gateway. What a
lane remembers is in the accounts of the roles, and so in checkpoints.
"""

from __future__ import annotations

from collections import deque

from colonnade.channels import Channel, Gateway, nanoseconds
from colonnade.drivers.account import Account
from colonnade.kernels.philox import uniform_words
from colonnade.streams import StreamKey
from colonnade.wire import Message, carried_bytes, encode_header

__all__ = ["Entrance", "Lane"]

_OUT, _IN, _LAST = "out", "in", "last"


class Lane:
    """The way from a sender to one receiver.

    Parameters
    ----------
    sender, receiver
        Their names.
    account
        The sender's.
    channel
        Between them.
    gateway
        The sender's, if it has one.
    seed
        The run's.
    """

    def __init__(
        self,
        sender: str,
        receiver: str,
        account: Account,
        channel: Channel,
        gateway: Gateway | None,
        seed: int,
    ) -> None:
        self.queue = account.occupancy.setdefault(receiver, deque())
        """When each message still under transmission has been transmitted."""
        self._sender = sender
        self._receiver = receiver
        self._ports = account.ports
        self._channel = channel
        self._latency = channel.latency_nanoseconds
        self._gateway = gateway
        self._seed = seed

    def enter(self, size: int, number: int, now: int) -> int:
        """Let message ``number`` of ``size`` bytes go at ``now``; return its arrival."""
        if self._gateway is not None:
            now = max(now, self._ports.get((_OUT, ""), 0))
            now += self._gateway.transmission_nanoseconds(size, leaving=True)
            self._ports[_OUT, ""] = now
        free = max(self.queue[-1], now) if self.queue else now
        sent = free + self._channel.transmission_nanoseconds(size)
        self.queue.append(sent)
        arrival = sent + self._latency
        return self._shaken(arrival, number) if self._channel.jitter else arrival

    def _shaken(self, arrival: int, number: int) -> int:
        key = StreamKey(self._seed, self._sender, f"jitter/{self._receiver}", number)
        share = int(uniform_words(key, 1)[0]) / 2**64
        last = self._ports.get((_LAST, self._receiver), 0)
        arrival = max(arrival + nanoseconds(share * self._channel.jitter), last)
        self._ports[_LAST, self._receiver] = arrival
        return arrival


class Entrance:
    """The gateway through which all messages to a receiver come in.

    Parameters
    ----------
    account
        The receiver's.
    gateway
        Its gateway.
    """

    def __init__(self, account: Account, gateway: Gateway) -> None:
        self._account = account
        self._gateway = gateway

    def admit(self, message: Message, number: int, now: int) -> int | None:
        """Return when a message that is there at ``now`` will have passed; None if it has by now.

        It is as long as with this number. When it has is decided when it comes, and remembered
        until ``leave``: in a run that goes on from a checkpoint it comes again, and has passed when
        it had.
        """
        name = (message.sender, message.sequence)
        due = self._account.entered.get(name)
        if due is None:
            header = encode_header(
                message.kind, message.purpose, message.round, number, message.part
            )
            size = carried_bytes(header, len(message.body))
            free = max(now, self._account.ports.get((_IN, ""), 0))
            due = free + self._gateway.transmission_nanoseconds(size, leaving=False)
            self._account.ports[_IN, ""] = self._account.entered[name] = due
            return due
        return due if due > now else None

    def leave(self, message: Message) -> None:
        """Forget a message that was taken or discarded, if it has come through here."""
        self._account.entered.pop((message.sender, message.sequence), None)
