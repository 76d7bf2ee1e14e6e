"""What FLARE keeps of streams has an end: of those that nobody takes here, and takes elsewhere.

A stream on a channel where nobody takes any is refused once it has a place, which it keeps for
seconds, with a thread of its own that does nothing but wait. An answer that is a stream is kept for
a minute, until who asked says that it came, with room for a megabyte however short it is: who asked
three thousand times and said nothing had 3 GB of the process of a job. So what nobody takes here is
refused before it has a place, an answer has as much room as it is long, of those to one
organisation the latest few wait to be acknowledged, and nobody acknowledges another's.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any

from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.message import Message
from nvflare.fuel.f3.streaming.blob_streamer import BlobStream
from nvflare.fuel.f3.streaming.byte_receiver import ByteReceiver
from nvflare.fuel.f3.streaming.byte_streamer import ByteStreamer, TxTask
from nvflare.fuel.f3.streaming.stream_const import StreamHeaderKey
from nvflare.fuel.f3.streaming.stream_types import StreamError, StreamTargetUnreachable
from nvflare.fuel.f3.streaming.stream_utils import wrap_view

from colonnade.telling import short

__all__ = ["guard_streams"]

_MOST = 64  # answers to one organisation that wait to be acknowledged

_waiting: dict[str, list[weakref.ref[TxTask]]] = {}  # by the organisation that they are for
_counting = threading.Lock()


def guard_streams() -> None:
    """Let what this process keeps of streams have an end; before it has a cell."""
    if not hasattr(TxTask.__init__, "__wrapped__"):
        TxTask.__init__ = _kept_briefly(TxTask.__init__)
        ByteReceiver._data_handler = _refused_first(ByteReceiver._data_handler)
        ByteStreamer._ack_handler = staticmethod(_of_its_receiver(ByteStreamer._ack_handler))


def _refused_first(take: Callable[..., None]) -> Callable[..., None]:
    @wraps(take)
    def taken(self: ByteReceiver, message: Message) -> None:
        on = map(message.get_header, (StreamHeaderKey.CHANNEL, StreamHeaderKey.TOPIC))
        if self.registry.find(*on):
            take(self, message)
        else:
            self.reject(message, StreamError("nobody takes streams on this channel"))

    return taken


def _of_its_receiver(take: Callable[[Message], None]) -> Callable[[Message], None]:
    @wraps(take)
    def taken(message: Message) -> None:
        task = ByteStreamer.tx_task_map.get(message.get_header(StreamHeaderKey.STREAM_ID))
        if task is not None and task.target == message.get_header(MessageHeaderKey.ORIGIN):
            take(message)

    return taken


def _kept_briefly(init: Callable[..., None]) -> Callable[..., None]:
    @wraps(init)
    def made(self: TxTask, *given: Any, **named: Any) -> None:
        init(self, *given, **named)
        size = self.stream.get_size()
        if isinstance(self.stream, BlobStream) and size < self.chunk_size:
            self.buffer = wrap_view(bytearray(size))
        whose = FQCN.get_root(self.target)
        if self.reliable and whose != FQCN.get_root(self.cell.my_info.fqcn):
            for oldest in _too_many(whose, self):
                why = f"{short(repr(whose))} has not acknowledged {_MOST} answers"
                oldest.stop(StreamTargetUnreachable(why), notify=False)

    return made


def _too_many(whose: str, task: TxTask) -> list[TxTask]:
    """Let an answer wait to be acknowledged; return those for which there is no room more."""
    with _counting:
        tasks = [waits() for waits in _waiting.get(whose, ())]
        waiting = [*(each for each in tasks if each is not None and not each.stopped), task]
        _waiting[whose] = [weakref.ref(each) for each in waiting[-_MOST:]]
        return waiting[:-_MOST]
