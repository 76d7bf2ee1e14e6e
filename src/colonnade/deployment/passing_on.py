"""How many messages a process of FLARE's passes on to one organisation at once.

Who takes nothing of what is sent to it keeps each thread waiting, for half a minute, that has
something for it; of these a process has a hundred, by which it hears everybody. So what is one too
many is lost, as on any network: who sent it sends it again.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.message import Message

__all__ = ["passing_on"]

_AT_ONCE = 32
_waiting: Counter[str] = Counter()  # messages, by the organisation that is to take them
_counting = threading.Lock()


@contextmanager
def passing_on(own: str, message: Message) -> Iterator[bool]:
    """Yield whether a message may go on its way, which it does as long as the context lasts.

    Parameters
    ----------
    own
        The name of the cell that is to pass it on, or to hear it itself.
    message
        A message, whose destination is the name of a cell.
    """
    to = FQCN.get_root(message.get_header(MessageHeaderKey.DESTINATION))
    if to == FQCN.get_root(own):
        yield True
        return
    with _counting:
        may = _waiting[to] < _AT_ONCE
        _waiting[to] += may
    try:
        yield may
    finally:
        with _counting:
            _waiting[to] -= may
            if not _waiting[to]:
                del _waiting[to]
