"""A transport that lets so many bytes of messages leave, and no more."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from colonnade.drivers import control
from colonnade.drivers.player import Parcel, Transport
from colonnade.errors import ConfigurationError
from colonnade.wire import carried_bytes

__all__ = ["Metered"]


class Metered:
    """A player's transport, with a limit to what leaves; see ``Transport``.

    Parameters
    ----------
    transport
        Carries the messages.
    name
        Whose they are.
    most
        How many bytes may leave in a run, as its ledger counts them.
    left
        How many have left before, in the same run.
    """

    def __init__(self, transport: Transport, name: str, most: int, left: int) -> None:
        self._transport, self._name = transport, name
        self._most, self._left = most, left

    @property
    def peers(self) -> Collection[str]:
        """See ``Transport``."""
        return self._transport.peers

    def send(self, receiver: str, parcel: Parcel) -> None:
        """See ``Transport``.

        Raises
        ------
        ConfigurationError
            If more would have left with this message than may; then it does not.
        """
        self._left += carried_bytes(parcel.header, len(parcel.body))
        if self._left > self._most:
            raise ConfigurationError(
                f"{self._name!r} ends the run by its policy.yaml: max_bytes allows "
                f"{self._most:,}, and with the next message {self._left:,} would have left, what "
                "was repeated after a crash included"
            )
        self._transport.send(receiver, parcel)

    def flush(self) -> None:
        """See ``Transport``."""
        self._transport.flush()

    def abandon(self) -> None:
        """See ``Transport``."""
        self._transport.abandon()

    def tell(self, message: control.FromPlayer) -> None:
        """See ``Transport``."""
        self._transport.tell(message)

    def bytes_received(self) -> Mapping[str, int]:
        """See ``Transport``."""
        return self._transport.bytes_received()
