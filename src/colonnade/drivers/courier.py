"""Frames in order, and once, over what loses, repeats and reorders.

A frame travels as *chunks*, numbered from 0 for each peer. What has come is acknowledged by the
number that is awaited next, with each chunk that goes the other way, or by itself where none does.
The oldest chunk is sent again when nothing was heard of it in time (``pace.py`` says how much is
under way, and what is in time); a stamp that is sent back tells how long a chunk took, also of one
that was sent twice. A receiver keeps what comes too early, and drops what it has, so frames come
out whole, in their order, and once. How much is under way to a peer is bounded, and so is what is
kept of one; a length is looked at before anything of it is kept.

Each datagram is ``kind (1) | number (8) | awaited (8) | left (4) | stamp (4) | echo (4) | bytes``,
big endian: the kind is a chunk or an acknowledgement alone, ``number`` the chunk's, ``awaited`` the
next chunk that its sender awaits, ``left`` what is left of the frame, this chunk included;
``stamp`` is when it was sent, in milliseconds of its sender's own, and ``echo`` the stamp of what
came first of that which is acknowledged.

Whatever comes of a peer shows that it is there. Who is there and takes nothing is given up too, if
much later.

A frame of no bytes is acknowledged like others, and handed to nobody: who watches a peer sends it
one when nothing was heard of it for a while, and so knows whether it is still there. While a chunk
is under way, and nothing is heard, a peer is asked so by the number of one that it has, often: it
tells what it awaits, as of whatever comes twice.
"""

from __future__ import annotations

import math
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Protocol

from colonnade.drivers import pace
from colonnade.drivers.failures import failure
from colonnade.drivers.pace import Pace, kept
from colonnade.errors import RemoteProtocolError

__all__ = ["STALLED", "Courier", "Post"]

_HEADER = struct.Struct("!BQQIII")
_CHUNK, _ACKNOWLEDGEMENT = 1, 2
_SOON = 0.01  # seconds until an acknowledgement goes alone, if nothing else goes that way
_LAST = 5.0  # seconds in which the last acknowledgements leave
_ASKS = 24  # in the time in which a peer is given up, whether it is there, of who is not heard
_LOOKS = 20  # in the time in which a peer is given up, whether it is to be
STALLED = 10  # times as long nothing that is sent comes, of who is given up though it is there
_STAMPS = 2**32


class Post(Protocol):
    """Carries datagrams, as well as it can: each may be lost, repeated, or come late."""

    def __call__(self, peer: str, datagram: bytes) -> None:
        """Send a datagram to a peer; any thread may."""
        ...


@dataclass
class _Chunk:
    """One that is under way: what is left of its frame, and when it was sent last."""

    left: int
    data: bytes
    sent: float
    before: float | None = None  # when it was sent before, if it was
    is_leaving: bool = False  # as its post takes long

    def send_again(self, now: float) -> None:
        """Know that it is sent again."""
        self.before, self.sent = self.sent, now

    def was_lost(self, taken: float) -> bool:
        """Whether of one that has come, and was sent when that was taken, an earlier one had not.

        A stamp is in milliseconds, so it is that of the one to which it is nearer.
        """
        return self.before is not None and abs(taken - self.sent) < abs(taken - self.before)


@dataclass
class _Outbound:
    """What goes to a peer. ``changed`` guards it."""

    pace: Pace
    number: int = 0
    chunks: dict[int, _Chunk] = field(default_factory=dict)  # under way, by number
    size: int = 0  # bytes that they take
    in_frame: bool = False  # whether more chunks of the same frame are to go
    ended: bool = False  # whether no more is to go
    lost: float = -math.inf  # what was sent before is to go again: something was lost until then
    watched: bool = False  # whether it is asked, when nothing is under way, if it is there
    asked: float = -math.inf  # when it was asked last whether it is there, beside what goes to it
    heard: float = math.inf  # when anything last came of it, or began to be awaited
    moved: float = -math.inf  # when some of what goes to it last came, or began to be under way
    changed: threading.Condition = field(default_factory=threading.Condition)

    def is_quiet(self, since: float) -> bool:
        """Whether it is to be asked if it is there, as nothing else is, nor was for so long."""
        has_more = self.ended or self.in_frame or bool(self.chunks)
        return self.watched and not has_more and self.heard < since

    def is_to_be_asked(self, now: float, patience: float) -> bool:
        """Whether it is to be asked if it is there, as of what is under way nothing is heard.

        It is asked by a chunk that it has, so not before it has taken one.
        """
        has_taken = next(iter(self.chunks), 0) > 0
        return has_taken and max(self.asked + patience / _ASKS, self.heard + patience / 8) < now

    def is_gone(self, now: float, patience: float) -> bool:
        """Whether it is to be given up."""
        is_silent = now - self.heard > patience
        return bool(self.chunks) and (is_silent or now - self.moved > STALLED * patience)

    def is_full(self, left: int) -> bool:
        """Whether a chunk of a frame of which so much is left has to wait."""
        size = self.size + kept(min(left, self.pace.chunk))
        return bool(self.chunks) and size > self.pace.room

    def oldest_since(self, sent: float) -> tuple[int, _Chunk] | None:
        """Return the oldest that is under way, and its number, if nothing came of late."""
        number, oldest = next(iter(self.chunks.items()), (0, None))
        if oldest is None or oldest.is_leaving:
            return None
        is_due = max(oldest.sent, self.moved) < sent or oldest.sent < self.lost
        return (number, oldest) if is_due else None

    def take_off(self, awaited: int, sent: float) -> int:
        """Know what has come, the last of it as sent at such a time; return the bytes it took."""
        came = 0
        for number in [*takewhile(lambda number: number < awaited, self.chunks)]:  # in their order
            chunk = self.chunks.pop(number)
            came += kept(len(chunk.data))
            if chunk.was_lost(sent):
                self.lost = chunk.sent
        self.size -= came
        return came

    def enter(self, chunk: _Chunk) -> int:
        """Know one that goes now; return its number."""
        if not self.chunks:
            self.heard = self.moved = chunk.sent
        number, self.number = self.number, self.number + 1
        self.chunks[number] = chunk
        self.size += kept(len(chunk.data))
        return number


@dataclass
class _Inbound:
    """What comes of a peer. ``taking`` guards it, and keeps frames in order."""

    limit: int
    awaited: int = 0
    early: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    early_size: int = 0  # bytes that they take
    parts: list[bytes] = field(default_factory=list)
    left: int = 0  # of the frame whose parts these are
    told: int = 0  # what was last told to be awaited
    stamp: int = 0  # of what came first since
    taking: threading.Lock = field(default_factory=threading.Lock)

    def has_room(self, number: int, data: bytes) -> bool:
        """Whether a chunk that comes too early can be kept."""
        is_early = number > self.awaited and number not in self.early
        return is_early and self.early_size + kept(len(data)) <= pace.MOST


@dataclass(frozen=True)
class _Ways:
    """Both ways of a peer, who is known with both or not at all."""

    outbound: _Outbound
    inbound: _Inbound
    due: threading.Event = field(default_factory=threading.Event)  # something is to be done soon


class Courier:
    """Brings frames to peers and hands over theirs.

    Parameters
    ----------
    post
        Carries datagrams to a peer.
    deliver
        Takes a frame of a peer; it is called from the threads that call ``receive``, of one peer in
        the order in which frames were sent, and must not wait for what is sent here.
    lose
        Is told, once, of a peer of whom nothing was heard for so long that it is given up.
    fail
        Is told of what keeps it from sending anything again; all peers are given up then.
    patience
        After how many seconds without a word a peer is given up.

    Notes
    -----
    Of whom it does not know yet it takes nothing: what they send comes again.

    Examples
    --------
    Two that are connected by nothing but calls:

    >>> def pair():
    ...     at = {}
    ...     def end(own, other):
    ...         post = lambda peer, datagram: at[other].receive(own, datagram)
    ...         courier = Courier(post, lambda _, frame: print(own, "got", frame), print, print)
    ...         courier.admit(other, limit=100)
    ...         return courier
    ...     at |= {"bank": end("bank", "shop"), "shop": end("shop", "bank")}
    ...     return at
    >>> pair()["bank"].send("shop", b"hello")
    shop got b'hello'
    """

    def __init__(
        self,
        post: Post,
        deliver: Callable[[str, bytes], None],
        lose: Callable[[str], None],
        fail: Callable[[Exception], None],
        patience: float = 120.0,
    ) -> None:
        self._post, self._deliver, self._patience = post, deliver, patience
        self._quiet = patience / 4  # seconds after which who is watched is asked
        self._lose, self._fail = lose, fail
        self._peers: dict[str, _Ways] = {}
        self._lost: set[str] = set()
        self._closed = threading.Event()
        self._made = time.monotonic()
        # One for each peer, as a post may take long; and one that posts nothing sees who is gone.
        self._keepers: dict[str, threading.Thread] = {}
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._starting = threading.Lock()
        self._started = False

    def admit(self, peer: str, limit: int, watched: bool = False) -> None:
        """Know a peer from now on, of whom frames of so many bytes are accepted.

        Who is ``watched`` is, from its first word on, given up also where nothing is under way.
        """
        with self._starting:
            outbound = _Outbound(Pace(self._patience), watched=watched)
            self._peers[peer] = _Ways(outbound, _Inbound(limit))
            if self._started:
                self._keep_from_now_on(peer)

    def start(self) -> None:
        """Acknowledge, and send again what is not acknowledged, from now on."""
        with self._starting:
            self._started = True
            for peer in self._peers:
                self._keep_from_now_on(peer)
        self._watcher.start()

    def close(self) -> None:
        """Stop, when all that has come is acknowledged; what is under way may come or not."""
        self._closed.set()
        self._let_go()
        until = time.monotonic() + _LAST
        for keeper in self._keepers.values():
            if keeper is not threading.current_thread():
                keeper.join(max(0.0, until - time.monotonic()))

    def send(self, peer: str, *parts: bytes) -> None:
        """Send a frame that is put together of ``parts``; wait while too much is under way.

        Raises
        ------
        ConnectionError
            If the peer was given up, or what goes to it was.
        """
        frame = b"".join(parts)
        ways = self._peers[peer]
        out = ways.outbound
        start = 0
        while True:
            left = len(frame) - start
            with out.changed:
                while out.is_full(left) and not self._is_over(peer):
                    out.changed.wait()
                if out.ended:
                    raise ConnectionError(f"nothing goes to {peer!r} any more")
                if self._is_over(peer):
                    raise ConnectionError(f"nothing is heard of {peer!r} any more")
                data = frame[start : start + out.pace.chunk]
                chunk = _Chunk(left, data, time.monotonic(), is_leaving=True)
                number = out.enter(chunk)
                start += len(data)
                out.in_frame = start < len(frame)
            ways.due.set()
            self._send_chunk(peer, number, chunk)
            chunk.sent, chunk.is_leaving = time.monotonic(), False
            if start >= len(frame):
                return

    def flush(self, peers: Iterable[str], seconds: float | None = None) -> bool:
        """Wait until all that was sent to these has come, or is given up; return whether."""
        deadline = None if seconds is None else time.monotonic() + seconds
        going = [(peer, self._peers[peer].outbound) for peer in peers if peer in self._peers]
        for peer, out in going:
            with out.changed:
                while out.chunks and not self._is_over(peer):
                    left = None if deadline is None else deadline - time.monotonic()
                    if left is not None and left <= 0:
                        break
                    out.changed.wait(left)
        return not any(out.chunks or out.ended for _, out in going)

    def abandon(self, peers: Iterable[str]) -> None:
        """Send these nothing more, and nothing again; what comes of them is still taken."""
        for out in (self._peers[peer].outbound for peer in peers if peer in self._peers):
            with out.changed:
                out.chunks.clear()
                out.size, out.ended = 0, True
                out.changed.notify_all()

    def in_part(self, peer: str) -> int:
        """Return how many bytes have come of a peer's frame that has not come whole."""
        return sum(map(len, self._peers[peer].inbound.parts)) if peer in self._peers else 0

    def receive(self, peer: str, datagram: bytes) -> None:
        """Take a datagram that came of a peer; any thread may.

        Raises
        ------
        RemoteProtocolError
            If it is none that a courier sends.
        """
        if self._closed.is_set() or peer not in self._peers:
            return
        if len(datagram) < _HEADER.size:
            raise RemoteProtocolError(f"from {peer!r}: {len(datagram)} bytes are no datagram")
        kind, number, awaited, left, stamp, echo = _HEADER.unpack_from(datagram)
        if kind not in (_CHUNK, _ACKNOWLEDGEMENT):
            raise RemoteProtocolError(f"from {peer!r}: a datagram of kind {kind}")
        self._acknowledged(peer, awaited, echo)
        if kind == _CHUNK:
            self._take(peer, number, left, stamp, bytes(memoryview(datagram)[_HEADER.size :]))

    def _known(self) -> list[tuple[str, _Ways]]:
        return [*self._peers.items()]  # any thread may come to know more

    # What goes out

    def _is_over(self, peer: str) -> bool:
        return peer in self._lost or self._closed.is_set()

    def _let_go(self) -> None:
        """Let whoever waits for a peer see that it is in vain."""
        for _, ways in self._known():
            ways.due.set()
            with ways.outbound.changed:
                ways.outbound.changed.notify_all()

    def _send_chunk(self, peer: str, number: int, chunk: _Chunk) -> None:
        self._carry(peer, _CHUNK, number, chunk.left, chunk.data)

    def _acknowledge(self, peer: str) -> None:
        self._carry(peer, _ACKNOWLEDGEMENT, 0, 0, b"")

    def _carry(self, peer: str, kind: int, number: int, left: int, data: bytes) -> None:
        inbound = self._peers[peer].inbound
        stamp, inbound.told = inbound.stamp, inbound.awaited
        header = _HEADER.pack(kind, number, inbound.told, left, self._stamp(), stamp)
        with suppress(Exception):  # then it is lost, as one may be, and sent again
            self._post(peer, header + data)

    def _stamp(self) -> int:
        """Return the time, as it is told to whoever sends it back."""
        return int(1000 * (time.monotonic() - self._made)) % _STAMPS

    def _acknowledged(self, peer: str, awaited: int, echo: int) -> None:
        """Know that a peer is there, what it awaits, and when that was sent which it got."""
        out, now = self._peers[peer].outbound, time.monotonic()
        with out.changed:
            if awaited > out.number:
                raise RemoteProtocolError(
                    f"from {peer!r}: it awaits chunk {awaited}, of {out.number} that were sent"
                )
            out.heard = now
            seconds = (self._stamp() - echo) % _STAMPS / 1000
            came = out.take_off(awaited, now - seconds)
            if not came:
                return
            out.pace.came(came, seconds)
            out.moved = now
            out.changed.notify_all()
            is_due = out.oldest_since(-math.inf) is not None
        if is_due:
            self._peers[peer].due.set()

    # What comes in

    def _take(self, peer: str, number: int, left: int, stamp: int, data: bytes) -> None:
        inbound = self._peers[peer].inbound
        with inbound.taking:
            is_next = number == inbound.awaited
            if number <= inbound.awaited == inbound.told:
                inbound.stamp = stamp  # also of what comes again, as what told of it may be lost
            if is_next:
                self._add(peer, inbound, left, data)
                while inbound.awaited in inbound.early:
                    left, data = inbound.early.pop(inbound.awaited)
                    inbound.early_size -= kept(len(data))
                    self._add(peer, inbound, left, data)
            elif inbound.has_room(number, data):
                inbound.early[number] = left, data
                inbound.early_size += kept(len(data))
            is_urgent = not is_next or inbound.awaited - inbound.told >= 4
        if is_urgent:  # it has something twice, or lacks something, or waits with much
            self._acknowledge(peer)
        else:
            self._peers[peer].due.set()

    def _add(self, peer: str, inbound: _Inbound, left: int, data: bytes) -> None:
        if not inbound.left:
            if left > inbound.limit:
                raise RemoteProtocolError(
                    f"from {peer!r}: a frame of {left} bytes; at most {inbound.limit} are accepted"
                )
            inbound.left = left
        if left != inbound.left or not pace.is_chunk(len(data), left):
            raise RemoteProtocolError(
                f"from {peer!r}: a chunk of {len(data)} bytes with {left} left of its frame, "
                f"where {inbound.left} are"
            )
        inbound.parts.append(data)
        inbound.left -= len(data)
        inbound.awaited += 1
        if not inbound.left:
            frame = inbound.parts[0] if len(inbound.parts) == 1 else b"".join(inbound.parts)
            inbound.parts = []
            if frame:
                self._deliver(peer, frame)

    # What is done in time

    def _keep_from_now_on(self, peer: str) -> None:
        keeper = threading.Thread(target=self._keep, args=(peer, self._peers[peer]), daemon=True)
        self._keepers[peer] = keeper
        keeper.start()

    def _keep(self, peer: str, ways: _Ways) -> None:
        with self._failing("messages cannot be sent again"):
            while not self._is_over(peer):
                if not self._look(peer, ways):
                    ways.due.clear()
                    if not (self._is_over(peer) or self._look(peer, ways)):  # nothing came between
                        ways.due.wait(self._quiet)
                self._closed.wait(_SOON)
            if ways.inbound.told != ways.inbound.awaited:
                self._acknowledge(peer)

    def _watch(self) -> None:
        with self._failing("nobody sees who is gone"):
            while not self._closed.wait(self._patience / _LOOKS):
                self._give_up()

    @contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        """Give up all peers where something cannot be done any more, and tell it."""
        try:
            yield
        except Exception as error:
            self._lost.update(self._peers)
            self._let_go()
            self._fail(failure(what, error))

    def _give_up(self) -> None:
        """Give up those of whom nothing was heard for too long."""
        for peer, ways in self._known():
            out = ways.outbound
            with out.changed:
                if peer in self._lost or not out.is_gone(time.monotonic(), self._patience):
                    continue
                self._lost.add(peer)
                out.changed.notify_all()
            ways.due.set()
            self._lose(peer)

    def _look(self, peer: str, ways: _Ways) -> bool:
        """Acknowledge, send again, ask; return whether anything may be due soon."""
        inbound, out, now = ways.inbound, ways.outbound, time.monotonic()
        if inbound.told != inbound.awaited:
            self._acknowledge(peer)
        with out.changed:
            due = out.oldest_since(now - out.pace.wait)
            if due is not None:
                if due[1].sent >= out.lost:  # else it is known, and nothing new of how long to wait
                    out.pace.went_again()
                due[1].send_again(now)
            elif out.is_quiet(now - self._quiet):
                word = _Chunk(0, b"", now)
                due = out.enter(word), word
            is_due = bool(out.chunks)
            asks = due is None and out.is_to_be_asked(now, self._patience)
            if asks:
                out.asked = now
        if due is not None:
            self._send_chunk(peer, *due)
        elif asks:
            self._carry(peer, _CHUNK, 0, 0, b"")
        return is_due
