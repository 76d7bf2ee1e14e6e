"""What every link must do, whatever its ends remember: a kit.

Each function in ``LINK_CHECKS`` takes a ``LinkSubject``, a link and what a test must know of it,
and asserts one part of the contract in ``colonnade.links.contract``. With pytest::

    @pytest.mark.parametrize("check", LINK_CHECKS)
    def test_my_link_conforms(check):
        check(LinkSubject(MyLink(TopK(0.1)), error=1e-5, after=30))

or, without, ``check_link(LinkSubject(...))``. Messages are of a small table: of rows that come
again, overlap, are permuted or alone, with values that stay, move a little, or are all alike. Of
each stream one end is made by the link and the other by an equal one, as two organisations do.
"""

from __future__ import annotations

import copy
import dataclasses
import gc
import itertools
import math
import random
import re
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from colonnade.checkpoints import decode_state, encode_state
from colonnade.errors import Diverged, RemoteProtocolError
from colonnade.links import Delivery, Link, LinkReceiver, LinkSender, Rows
from colonnade.planning.hollow import sized
from colonnade.streams import StreamKey
from colonnade.testing.codecs import patterns
from colonnade.wire import Purpose

__all__ = [
    "LINK_CHECKS",
    "LinkSubject",
    "brings_values_to_their_rows",
    "check_link",
    "goes_on_from_its_state",
    "is_a_value",
    "keeps_both_ends_together",
    "keeps_its_streams_apart",
    "leaves_alone_what_it_is_given",
    "lives_with_what_is_lost",
    "predicts_its_size",
    "refuses_before_it_allocates",
    "refuses_garbage",
    "refuses_what_is_not_finite",
    "remembers_no_more_than_it_says",
    "takes_held_out_rows_one_by_one",
]

if not __debug__:
    raise ImportError("the kit asserts, and python -O leaves assertions out: run it without -O")

_ROWS = 24  # of the table
_FEW, _AGAIN, _ALL = (*range(8),), (7, 2, 5, 0, 3, 6, 1, 4), (*range(5, 24), *range(5))
_BATCHES = (_FEW, _AGAIN, range(4, 12), range(12, 24), _ALL, (5,), (5,), (23, 0, 11), *[_FEW] * 5)
_LARGEST = float(np.finfo(np.float32).max)
_HUGE = [np.array(v, "<f4").tobytes() for v in (math.inf, math.nan, _LARGEST, -_LARGEST)]
_LATE = 8  # from this message on nothing moves by itself
_BIG = (2048, 128)  # rows of a table, and of a message, when memory is looked at
_SMALL = 2**14  # bytes of settings and the like, which nobody counts
_names = itertools.count()


@dataclass(frozen=True)
class LinkSubject:
    """A link, and what a test must know of it.

    Parameters
    ----------
    link
        The link.
    width
        Components of a row.
    within
        Values are of at most this magnitude.
    error
        How far a component may be off that was sent ``after`` times; where nothing is known, not
        even that the values belong to their rows is checked.
    after
        How often the same values are sent before.

    Examples
    --------
    >>> from colonnade.links import Direct
    >>> subject = LinkSubject(Direct(), error=0.0)
    >>> str(subject)
    'Direct-codec=Float-format=32'
    >>> check_link(subject)
    """

    link: Link
    width: int = 6
    within: float = 8.0
    error: float = math.inf
    after: int = 1

    def __str__(self) -> str:
        return re.sub(r"[^\w.=-]+", "-", repr(self.link)).strip("-")

    def streams(self) -> Iterator[tuple[Link, Purpose]]:
        """Yield the link of training, and that of held-out rows, with what each is for."""
        yield self.link, Purpose.TRAINING
        yield self.link.held_out(), Purpose.EVALUATION

    def messages(self, purpose: Purpose = Purpose.TRAINING, seed: int = 1) -> list[_Message]:
        """Return a stream: in training a message a round, else pieces of a round."""
        generator = torch.Generator().manual_seed(seed)
        table = torch.randn(_ROWS, self.width, generator=generator) * self.within / 3
        found = []
        for number, batch in enumerate(_BATCHES):
            rows: Rows = np.array(batch, dtype=np.int64)
            moved = 0.1 * torch.randn(len(rows), self.width, generator=generator)
            saliency = torch.rand(self.width, generator=generator)
            if number < _LATE:
                table[rows] += moved
            x = table[rows].clamp(-self.within, self.within)
            if number > _LATE:  # the same again, then what is all alike
                x = (x, torch.zeros_like(x), torch.full_like(x, -self.within), x)[
                    number - _LATE - 1
                ]
            training = purpose is Purpose.TRAINING
            round, part = (3 * number, 0) if training else (number // 4, number % 4)
            key = StreamKey(20 + seed, "bank", f"{purpose.label}/embedding", round, part)
            found.append(_Message(number, x, rows, key, saliency if number else None))
        return found


@dataclass(frozen=True, eq=False)
class _Message:
    number: int
    x: Tensor
    rows: Rows
    key: StreamKey
    saliency: Tensor | None

    def __str__(self) -> str:
        return (
            f"message {self.number} ({len(self.rows)} rows, {self.key.purpose}, "
            f"round {self.key.round})"
        )

    @property
    def shape(self) -> tuple[int, int]:
        return self.x.shape[0], self.x.shape[1]

    def sent(self, sender: LinkSender) -> bytes:
        with _works(f"the sender cannot send {self}"):
            # A copy, as whether the sender leaves it alone is for one check.
            body = sender.send(self.x.clone(), self.rows, self.key, self.saliency)
        assert type(body) is bytes, f"the body of {self} is of type {type(body).__name__}"
        return body

    def delivered(self, sender: LinkSender, body: bytes) -> Tensor:
        with _works(f"the sender cannot say what was delivered of {self}"):
            return sender.delivered(body, self.rows, self.key)

    def received(self, receiver: LinkReceiver, body: bytes) -> Tensor:
        with _works(f"the receiver cannot take {self}, which its sender sent"):
            return receiver.receive(body, self.rows, self.key)


@dataclass(frozen=True)
class _Course:
    """What a stream was when nothing disturbed it."""

    messages: Sequence[_Message]
    bodies: Sequence[bytes]
    delivered: Sequence[Tensor]
    received: Sequence[Tensor]


def _undisturbed(subject: LinkSubject, link: Link, messages: Sequence[_Message]) -> _Course:
    sender, receiver = _sender(subject, link), _receiver(subject, copy.deepcopy(link))
    bodies, delivered, received = [], [], []
    for message in messages:
        bodies.append(message.sent(sender))
        delivered.append(message.delivered(sender, bodies[-1]).clone())
        received.append(message.received(receiver, bodies[-1]).clone())
    return _Course(messages, bodies, delivered, received)


def _sender(subject: LinkSubject, link: Link, name: str | None = None) -> LinkSender:
    with _works("no sender can be made"):
        return link.sender(_ROWS, subject.width, name or _name())


def _receiver(subject: LinkSubject, link: Link, name: str | None = None) -> LinkReceiver:
    with _works("no receiver can be made"):
        return link.receiver(_ROWS, subject.width, name or _name())


def _name() -> str:
    """Return a name that no other end has."""
    return f"kit/{next(_names)}"


@contextmanager
def _works(otherwise: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{otherwise}: {type(error).__name__}: {error}") from error


def _assert_same(found: Tensor, expected: Tensor, what: str) -> None:
    """Assert the same bits, and say where the first others are."""
    assert found.shape == expected.shape, f"{what}: shape {[*found.shape]}, not {[*expected.shape]}"
    other = (patterns(found) != patterns(expected)).nonzero()
    if len(other):
        row, column = other[0].tolist()
        raise AssertionError(
            f"{what}: component {column} of the row at {row} is {float(found[row, column])!r}, "
            f"not {float(expected[row, column])!r}"
        )


def _assert_matrix(value: Any, message: _Message, whose: str) -> None:
    what = f"what {whose} {message}"
    assert isinstance(value, Tensor), f"{what} is a {type(value).__name__}, not a tensor"
    expected = message.shape
    assert tuple(value.shape) == expected, f"{what} has shape {[*value.shape]}, not {[*expected]}"
    assert value.dtype == torch.float32, f"{what} is {value.dtype}, not float32"
    assert value.device.type == "cpu", f"{what} is on {value.device}, not on the CPU"
    assert not value.requires_grad, f"{what} carries a graph"
    assert torch.isfinite(value).all(), f"{what} is not finite, and what was sent is"


# The checks


def is_a_value(subject: LinkSubject) -> None:
    """Assert that the link is a frozen dataclass, which streams leave as it is."""
    link = subject.link
    kind: type[Any] = type(link)
    assert isinstance(link, Link), f"{kind.__name__} has not all that a Link has"
    assert dataclasses.is_dataclass(kind), f"{kind.__name__} is no dataclass"
    for field in dataclasses.fields(kind):
        try:
            setattr(link, field.name, getattr(link, field.name))
        except dataclasses.FrozenInstanceError:
            continue
        raise AssertionError(f"{field.name} can be changed: a link is a frozen dataclass")
    assert isinstance(link.delivery, Delivery), f"delivery is {link.delivery!r}, not a Delivery"
    before = copy.deepcopy(link)
    with _works("a link is used as a key, and this one cannot be"):
        hashes = hash(before), hash(link)
    assert before == link, "a copy of the link is not equal to it"
    assert hashes[0] == hashes[1], "a copy of the link has another hash"
    _undisturbed(subject, link, subject.messages())
    assert before == link, "a stream changed the link, so a run could not be resumed with it"
    for round in (0, 1, 30):
        assert isinstance(link.at(round), Link), f"at({round}) is {link.at(round)!r}, and no link"


def keeps_both_ends_together(subject: LinkSubject) -> None:
    """Assert that each receiver takes, to the bit, what the sender says was delivered.

    One receiver is as fast as the sender, one stays behind by up to three messages, as there may be
    several; one sender is never asked what was delivered.
    """
    for link, purpose in subject.streams():
        sender, silent = _sender(subject, link), _sender(subject, link)
        quick, slow = (_receiver(subject, copy.deepcopy(link)) for _ in range(2))
        waiting: list[tuple[_Message, bytes, Tensor]] = []
        for message in subject.messages(purpose):
            body = message.sent(sender)
            assert body == message.sent(silent), (
                f"{message} has other bytes from a sender that is never asked what was delivered, "
                "and a body may hang on messages and their keys alone"
            )
            told = message.delivered(sender, body)
            _assert_matrix(told, message, "the sender says was delivered of")
            told = told.clone()
            _assert_same(
                message.delivered(sender, body),
                told,
                f"asked twice what was delivered of {message}",
            )
            got = message.received(quick, body)
            _assert_matrix(got, message, "the receiver takes for")
            _assert_same(got, told, f"the ends drift apart, as the receiver takes for {message}")
            waiting.append((message, body, told))
            if len(waiting) == 3:
                _catch_up(slow, waiting)
        _catch_up(slow, waiting)


def _catch_up(receiver: LinkReceiver, waiting: list[tuple[_Message, bytes, Tensor]]) -> None:
    for message, body, told in waiting:
        got = message.received(receiver, body)
        _assert_same(got, told, f"a receiver that is behind its sender takes for {message}")
    waiting.clear()


def brings_values_to_their_rows(subject: LinkSubject) -> None:
    """Assert that values which are sent again and again, in any order of rows, arrive."""
    if not math.isfinite(subject.error):
        return
    for link, purpose in subject.streams():
        generator = torch.Generator().manual_seed(3)
        sender, receiver = _sender(subject, link), _receiver(subject, copy.deepcopy(link))
        x = (2 * torch.rand(_ROWS, subject.width, generator=generator) - 1) * subject.within
        for round in range(subject.after):
            order = torch.randperm(_ROWS, generator=generator)
            key = StreamKey(3, "bank", f"{purpose.label}/embedding", round)
            message = _Message(round, x[order], order.numpy(), key, None)
            got = message.received(receiver, message.sent(sender))
        off = (got - message.x).abs()
        row, column = divmod(int(off.argmax()), subject.width)
        assert off.max() <= subject.error, (
            f"values that were sent {subject.after} times have not arrived: of {message} the "
            f"receiver has {got[row, column]:g} for {message.x[row, column]:g}, "
            f"{off.max():g} off, and {subject.error:g} is claimed"
        )


def lives_with_what_is_lost(subject: LinkSubject) -> None:
    """Assert, where any message may be lost, that others are understood without those lost."""
    for link, purpose in subject.streams():
        if link.delivery is not Delivery.ANY:
            continue
        sender, receiver = _sender(subject, link), _receiver(subject, copy.deepcopy(link))
        for message in subject.messages(purpose):
            body = message.sent(sender)
            if message.number % 3 != 1:
                continue  # lost
            with _works(f"delivery is ANY, and without those before {message} is not understood"):
                got = receiver.receive(body, message.rows, message.key)
            _assert_same(
                got,
                message.delivered(sender, body),
                f"delivery is ANY, and after others were lost the receiver takes for {message}",
            )


def goes_on_from_its_state(subject: LinkSubject) -> None:
    """Assert that either end goes on, to the bit, from a checkpoint before any message.

    Messages that were sent after the checkpoint are sent again.
    """
    for link, purpose in subject.streams():
        course = _undisturbed(subject, link, subject.messages(purpose))
        place, other = _name(), _name()
        sender, receiver = _sender(subject, link, place), _receiver(subject, link, other)
        for message in course.messages:
            saved = [_saved(sender, "sender"), _saved(receiver, "receiver")]
            for undone in course.messages[message.number : message.number + 2]:
                undone.received(receiver, undone.sent(sender))
            sender, receiver = _sender(subject, link, place), _receiver(subject, link, other)
            with _works(f"an end cannot take its state before {message}"):
                sender.load_state_dict(decode_state(saved[0]))
                receiver.load_state_dict(decode_state(saved[1]))
            body = message.sent(sender)
            assert body == course.bodies[message.number], (
                f"a sender that goes on from its state sends {message} in other bytes than one "
                "that never stopped: state_dict forgets something"
            )
            _assert_same(
                message.delivered(sender, body),
                course.delivered[message.number],
                "a sender that goes on from its state says that other values were delivered than "
                f"one that never stopped, so state_dict forgets something: of {message}",
            )
            with _works(f"a receiver that goes on from its state cannot take {message}"):
                got = receiver.receive(body, message.rows, message.key)
            _assert_same(
                got,
                course.received[message.number],
                "a receiver that goes on from its state takes other values than one that never "
                f"stopped, so state_dict forgets something: of {message}",
            )


def _saved(end: LinkSender | LinkReceiver, whose: str) -> bytes:
    with _works(f"a checkpoint cannot hold the state of the {whose}"):
        return encode_state(end.state_dict())


def predicts_its_size(subject: LinkSubject) -> None:
    """Assert that a body has no more bytes than is claimed and planned; if fixed, just those."""
    for link, purpose in subject.streams():
        messages = subject.messages(purpose)
        sender, hollow = _sender(subject, link), _sender(subject, sized(link))
        for message in messages:
            rows, width = message.shape
            size = len(message.sent(sender))
            now = link.at(message.key.round).bytes_at_most(rows, width)
            ever = link.bytes_at_most(rows, width)
            assert size <= now, f"{message} has {size} bytes, and bytes_at_most says {now}"
            assert now <= ever, (
                f"bytes_at_most says {ever} for any round and {now} for round {message.key.round}"
            )
            fixed = not link.fixed_size or size == now
            assert fixed, (
                f"{message} has {size} bytes, and fixed_size with bytes_at_most says {now}"
            )
            zeros = dataclasses.replace(message, x=torch.zeros(message.shape))
            planned = len(zeros.sent(hollow))
            assert planned == now, (
                f"zeros, which a plan sends, have {planned} bytes in place of {message}, and "
                f"fixed_size with bytes_at_most says {now}"
            )


def takes_held_out_rows_one_by_one(subject: LinkSubject) -> None:
    """Assert that ``held_out`` remembers nothing, and is the link itself where that does not."""
    link, held_out = subject.link, subject.link.held_out()
    assert isinstance(held_out, Link), f"held_out() is {held_out!r}, and no link"
    if link.delivery is Delivery.ANY and not link.bytes_remembered(10**6, subject.width):
        assert held_out == link, (
            f"a link that remembers nothing takes held-out rows itself, and held_out() is "
            f"{held_out!r}"
        )
    again = held_out.held_out()
    assert again == held_out, f"rows are held out once, and held_out().held_out() is {again!r}"
    for purpose in (Purpose.EVALUATION, Purpose.PREDICTION):
        sender, receiver = _sender(subject, held_out), _receiver(subject, held_out)
        for message in subject.messages(purpose):
            body = message.sent(sender)
            assert body == message.sent(_sender(subject, held_out)), (
                f"held_out() remembers: after other messages {message} has other bytes"
            )
            alone = _receiver(subject, copy.deepcopy(held_out))
            with _works(f"held_out() remembers: {message} is not understood by itself"):
                got = alone.receive(body, message.rows, message.key)
            _assert_same(
                got,
                message.received(receiver, body),
                f"held_out() remembers: a receiver of nothing else takes for {message}",
            )


def keeps_its_streams_apart(subject: LinkSubject) -> None:
    """Assert that other streams of the same link, and warming up, change nothing of a stream."""
    plans = [(subject.link, Purpose.TRAINING, 1), (subject.link, Purpose.TRAINING, 2)]
    plans.append((subject.link.held_out(), Purpose.EVALUATION, 3))
    courses = [
        _undisturbed(subject, copy.deepcopy(link), subject.messages(purpose, seed))
        for link, purpose, seed in plans
    ]
    ends = [(_sender(subject, link), _receiver(subject, link)) for link, _, _ in plans]
    for number in range(len(_BATCHES)):
        for (sender, receiver), course in zip(ends, courses, strict=True):
            message = course.messages[number]
            body = message.sent(sender)
            assert body == course.bodies[number], (
                f"streams of one link share state: beside others {message} has other bytes"
            )
            message.delivered(sender, body)
            _assert_same(
                message.received(receiver, body),
                course.received[number],
                f"streams of one link share state: beside others the receiver takes for {message}",
            )
        with _works("the link cannot be warmed up"):
            subject.link.warm_up(subject.width)


def leaves_alone_what_it_is_given(subject: LinkSubject) -> None:
    """Assert that an end changes nothing that it is given, and lets go of it and of its results."""
    for link, purpose in subject.streams():
        course = _undisturbed(subject, link, subject.messages(purpose))
        sender, receiver = _sender(subject, link), _receiver(subject, copy.deepcopy(link))
        drawn = torch.get_rng_state(), repr(np.random.get_state())
        for original in course.messages:
            # Columns beside each other, and with a graph, as a model may return them.
            x = original.x.t().contiguous().t().requires_grad_()
            saliency = None if original.saliency is None else original.saliency.clone()
            message = dataclasses.replace(
                original, x=x, rows=original.rows.copy(), saliency=saliency
            )
            with _works(f"the sender cannot send {message}, as a model returned it"):
                body = sender.send(x, message.rows, message.key, saliency)
            _assert_same(x.detach(), original.x, f"the sender changed the values of {message}")
            if saliency is not None and original.saliency is not None:
                same = torch.equal(saliency, original.saliency)
                assert same, f"the sender changed the saliency of {message}"
            told = message.delivered(sender, body)
            got = message.received(receiver, body)
            assert np.array_equal(message.rows, original.rows), f"an end changed rows of {message}"
            held = (
                "an end depends on how values lie in memory, or on what it was given or returned "
                "and others changed since:"
            )
            assert body == course.bodies[message.number], f"{held} {message} has other bytes"
            for mine, expected in ((told, course.delivered), (got, course.received)):
                _assert_same(mine, expected[message.number], f"{held} it takes for {message}")
            for mine in (x.detach(), told, got):
                mine.fill_(7.0)
            message.rows[:] = message.rows[::-1].copy()
        left = torch.get_rng_state(), repr(np.random.get_state())
        alike = torch.equal(drawn[0], left[0]) and drawn[1] == left[1]
        assert alike, "an end draws from the global generator: draw from the key"


def refuses_what_is_not_finite(subject: LinkSubject) -> None:
    """Assert that what is not finite raises ``Diverged``, and what is huge arrives finite or does.

    Of what is huge nothing more is asked than that both ends take the same for it.
    """
    for link, purpose in subject.streams():
        first, second, *_ = subject.messages(purpose)
        for value in (math.nan, math.inf, -math.inf, _LARGEST, -_LARGEST, 3e38, -3e38):
            sender, receiver = _sender(subject, link), _receiver(subject, copy.deepcopy(link))
            first.received(receiver, first.sent(sender))
            x = second.x.clone()
            x[3, -1] = value
            try:
                body = sender.send(x, second.rows, second.key)
            except Diverged:
                continue
            except Exception as error:
                raise AssertionError(
                    f"a component that is {value} raises {type(error).__name__}, not Diverged: "
                    f"{error}"
                ) from error
            assert math.isfinite(value), f"{value} is sent without Diverged"
            got = second.received(receiver, body)
            _assert_same(
                got,
                second.delivered(sender, body),
                f"with a component that is {value} the ends drift apart: of {second}",
            )
            assert torch.isfinite(got).all(), f"{value:g} arrives as what is not finite"


def refuses_garbage(subject: LinkSubject) -> None:
    """Assert that any bytes raise ``RemoteProtocolError``, or are finite values of those rows.

    Whatever numbers are in them, memory is taken for the rows that were agreed on alone.
    """
    for link in _links(subject):
        *before, message = subject.messages()[:3]
        trial = _Trial(subject, link, before, message)
        body, source = trial.body, random.Random(5)
        for size in [*range(min(16, len(body))), *_some(range(len(body)), 24, source)]:
            trial.take(body[:size], refuse=link.fixed_size)
        for tail in (b"\0", b"\xff", bytes(8), body):
            trial.take(body + tail, refuse=link.fixed_size)
        for bit in _some(range(min(64, 8 * len(body))), 32, source) + _some(
            range(8 * len(body)), 64, source
        ):
            flipped = bytearray(body)
            flipped[bit // 8] ^= 1 << bit % 8
            trial.take(bytes(flipped))
        for size in [len(body)] * 32 + [source.randrange(2 * len(body) + 1) for _ in range(32)]:
            trial.take(source.randbytes(size))
        for place in _some(range(len(body)), 64, source):
            for number in _HUGE:
                trial.take(body[:place] + number + body[place + len(number) :])
        for place in range(min(12, len(body))):
            for number in (b"\xff\xff\xff\x7f", b"\x7f\xff\xff\xff"):  # huge in either order
                trial.measure(body[:place] + number + body[place + 4 :])


def _some(of: Sequence[int], count: int, source: random.Random) -> list[int]:
    return source.sample(of, min(count, len(of)))


def _links(subject: LinkSubject) -> list[Link]:
    """Return the link, and that of held-out rows where it is another."""
    held_out = subject.link.held_out()
    return [subject.link] if held_out == subject.link else [subject.link, held_out]


class _Trial:
    """A receiver in the middle of a stream, which is handed any bytes in place of the next body."""

    def __init__(
        self, subject: LinkSubject, link: Link, before: Sequence[_Message], message: _Message
    ) -> None:
        self._subject = subject
        self._link = link
        self._message = message
        sender, self._name = _sender(subject, link), _name()
        receiver = _receiver(subject, link, self._name)
        for each in before:
            each.received(receiver, each.sent(sender))
        self._state = _saved(receiver, "receiver")
        self.body = message.sent(sender)
        rows, width = message.shape
        much = link.bytes_at_most(rows, width) + link.bytes_remembered(_ROWS, width)
        self._most = 2**22 + 64 * (much + 4 * rows * width)

    def take(self, body: bytes, refuse: bool = False) -> None:
        """Assert that the bytes are refused, or are values."""
        receiver, message = self._receiver(), self._message
        try:
            got = receiver.receive(body, message.rows, message.key)
        except RemoteProtocolError:
            return
        except Exception as error:
            raise AssertionError(
                f"foreign bytes raise {type(error).__name__}, not RemoteProtocolError: {error} "
                f"({_shown(body)})"
            ) from error
        assert not refuse, (
            f"fixed_size says that {message} has {len(self.body)} bytes, and {len(body)} are taken"
        )
        assert tuple(got.shape) == message.shape, (
            f"foreign bytes become {[*got.shape]} values, not {[*message.shape]} ({_shown(body)})"
        )
        assert got.dtype == torch.float32, f"foreign bytes become {got.dtype}, not float32"
        assert torch.isfinite(got).all(), (
            f"foreign bytes become what is not finite ({_shown(body)})"
        )

    def measure(self, body: bytes) -> None:
        """Assert that the bytes take memory for the rows that were agreed on, and no more."""
        peak = self._peak(body)
        if peak > self._most:
            peak = self._peak(body)  # the first time something may have been compiled
        assert peak <= self._most, (
            f"{len(body)} foreign bytes take {peak} bytes of memory: something is allocated by a "
            f"number found in them ({_shown(body)})"
        )

    def _peak(self, body: bytes) -> int:
        running = tracemalloc.is_tracing()
        if not running:
            tracemalloc.start()
        try:
            tracemalloc.reset_peak()
            start = tracemalloc.get_traced_memory()[0]
            self.take(body)
            return tracemalloc.get_traced_memory()[1] - start
        finally:
            if not running:
                tracemalloc.stop()

    def _receiver(self) -> LinkReceiver:
        receiver = _receiver(self._subject, self._link, self._name)
        receiver.load_state_dict(decode_state(self._state))
        return receiver


def _shown(body: bytes) -> str:
    return f"{body[:16].hex()}..., {len(body)} bytes" if len(body) > 16 else f"{body.hex()!r}"


def refuses_before_it_allocates(subject: LinkSubject) -> None:
    """Assert with more rows than any machine has room for: to allocate raises something else."""
    for link in _links(subject):
        message = subject.messages()[0]
        bodies = [b""]
        if link.fixed_size:  # else a few bytes may be a message of any number of rows
            bodies.append(message.sent(_sender(subject, link)))
        rows = np.broadcast_to(np.int64(0), (2**40,))
        for body in bodies:
            receiver = _receiver(subject, link)
            try:
                receiver.receive(body, rows, message.key)
            except RemoteProtocolError:
                continue
            except Exception as error:
                raise AssertionError(
                    f"{len(body)} bytes for {len(rows)} rows raise {type(error).__name__}, not "
                    f"RemoteProtocolError: look at the body before anything is allocated: {error}"
                ) from error
            raise AssertionError(f"{len(body)} bytes are taken for {len(rows)} rows")


def remembers_no_more_than_it_says(subject: LinkSubject) -> None:
    """Assert that no end keeps more than ``bytes_remembered``, and what its last message took."""
    table, batch = _BIG
    for link in _links(subject):
        said = link.bytes_remembered(table, subject.width)
        sender = link.sender(table, subject.width, _name())
        receiver = link.receiver(table, subject.width, _name())
        generator = torch.Generator().manual_seed(6)
        for round in range(table // batch):
            rows: Rows = np.arange(round * batch, (round + 1) * batch, dtype=np.int64)
            x = torch.rand(batch, subject.width, generator=generator) * subject.within
            key = StreamKey(6, "bank", "training/embedding", round)
            message = _Message(round, x, rows, key, None)
            body = message.sent(sender)
            message.delivered(sender, body)
            message.received(receiver, body)
        last = 2 * (link.bytes_at_most(batch, subject.width) + 4 * x.numel() + rows.nbytes)
        for whose, end in (("sender", sender), ("receiver", receiver)):
            kept = _bytes_kept(end)
            assert kept <= said + last + _SMALL, (
                f"the {whose} of a table of {table} rows keeps {kept} bytes, and bytes_remembered "
                f"says {said}"
            )


def _bytes_kept(end: object) -> int:
    """Return the bytes of all that an object refers to, but for what programs are made of."""
    kept, seen = 0, set[int]()
    left: list[Any] = [end]
    while left:
        value = left.pop()
        if isinstance(value, type | ModuleType | FunctionType | BuiltinFunctionType):
            continue
        place = value.untyped_storage().data_ptr() if isinstance(value, Tensor) else id(value)
        if place not in seen:
            seen.add(place)
            kept += value.untyped_storage().nbytes() if isinstance(value, Tensor) else 0
            kept += sys.getsizeof(value)
            left += gc.get_referents(value)
    return kept


LINK_CHECKS: Sequence[Callable[[LinkSubject], None]] = (
    is_a_value,
    keeps_both_ends_together,
    brings_values_to_their_rows,
    lives_with_what_is_lost,
    goes_on_from_its_state,
    predicts_its_size,
    takes_held_out_rows_one_by_one,
    keeps_its_streams_apart,
    leaves_alone_what_it_is_given,
    refuses_what_is_not_finite,
    refuses_garbage,
    refuses_before_it_allocates,
    remembers_no_more_than_it_says,
)
"""All parts of the contract."""


def check_link(subject: LinkSubject) -> None:
    """Run every check.

    Raises
    ------
    AssertionError
        If the link breaks a part of the contract; it says in a sentence what is wrong.
    """
    for check in LINK_CHECKS:
        check(subject)
