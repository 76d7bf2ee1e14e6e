"""What FLARE keeps of others' words has an end.

Each process of FLARE's keeps how many messages came, how large they were and how long they took, by
the channel, the topic and the first cell of the way that a message says of itself, as long as it
lives: who says another way each time had 60 KB kept of each message. So a process keeps as many
different words as an honest federation has, and counts all others together.

It keeps, too, whatever somebody says of himself as a connection begins, though it reads his name
alone, and makes objects of it first. So it hears nothing but that, and of few bytes.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from nvflare.fuel.f3.comm_error import CommError
from nvflare.fuel.f3.sfm.conn_manager import ConnManager
from nvflare.fuel.f3.sfm.constants import HandshakeKeys
from nvflare.fuel.f3.sfm.prefix import Prefix
from nvflare.fuel.f3.sfm.sfm_conn import SfmConnection
from nvflare.fuel.f3.stats_pool import CounterPool, HistPool

__all__ = ["LONGEST", "guard_words"]

LONGEST = 200  # characters of a channel, topic, code or cell: FLARE keeps those it has heard
_MOST = 4096  # of each kind of count
_LONGEST_COUNTED = 1000  # characters, of several of these
_MOST_OF_A_BEGINNING = 2**14  # bytes that somebody says of himself
_OTHERS = "others"


def guard_words() -> None:
    """Let what this process keeps of others' words have an end."""
    if hasattr(HistPool.record_value, "__wrapped__"):
        return
    record, increment = HistPool.record_value, CounterPool.increment
    update, read = ConnManager.update_endpoint, ConnManager.get_dict_payload

    @wraps(record)
    def record_value(self: HistPool, category: str, value: float) -> None:
        record(self, _among(self.cat_bins, category), value)

    @wraps(increment)
    def counted(self: CounterPool, category: str, counter_name: str, amount: int = 1) -> None:
        name = _among(self.counter_names, counter_name)
        increment(self, _among(self.cat_counters, category), name, amount)

    @wraps(read)
    def get_dict_payload(prefix: Prefix, frame: Any) -> Any:
        if len(frame) > _MOST_OF_A_BEGINNING:
            raise CommError(CommError.BAD_DATA, "nobody begins a connection by so many words")
        return read(prefix, frame)

    @wraps(update)
    def update_endpoint(self: ConnManager, connection: SfmConnection, said: Any) -> None:
        name = said.get(HandshakeKeys.ENDPOINT_NAME) if isinstance(said, dict) else None
        if not isinstance(name, str) or len(name) > LONGEST:
            raise CommError(CommError.BAD_DATA, "nobody begins a connection by such a name")
        update(self, connection, {HandshakeKeys.ENDPOINT_NAME: name})

    HistPool.record_value, CounterPool.increment = record_value, counted
    ConnManager.update_endpoint = update_endpoint
    ConnManager.get_dict_payload = staticmethod(get_dict_payload)


def _among(known: Any, word: str) -> str:
    """Return a word by which something is counted already, or may be; else that of all others."""
    if word in known or (len(known) < _MOST and len(word) <= _LONGEST_COUNTED):
        return word
    return _OTHERS
