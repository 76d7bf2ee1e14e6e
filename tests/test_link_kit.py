"""The link kit over our links, and over links planted to break one part of the contract each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from colonnade.codecs import (
    QSGD,
    ByRound,
    Codec,
    Entropy,
    Float,
    Lattice,
    LowRank,
    ProductQuantised,
    Scalar,
    TopK,
)
from colonnade.errors import Diverged, RemoteProtocolError
from colonnade.links import Delivery, Direct, ErrorFeedback, LearnedEntropy
from colonnade.surrogates import Disk, Memory
from colonnade.testing.links import LINK_CHECKS, LinkSubject, check_link

SUBJECTS = {
    "exact": LinkSubject(Direct(), error=0.0),
    "one column": LinkSubject(Direct(Scalar(8, -8.0, 8.0)), width=1, error=16 / 255),
    "entropy": LinkSubject(Direct(Entropy(Scalar(3, -8.0, 8.0))), error=16 / 7),
    "saliency": LinkSubject(Direct(TopK(0.4, "columns", "saliency"))),
    "low rank": LinkSubject(Direct(LowRank(2))),
    "by round": LinkSubject(Direct(ByRound((Float(16), Scalar(6)), (0, 9))), error=1e-2),
    "top_k": LinkSubject(ErrorFeedback(TopK(0.3)), error=1e-5, after=20),
    "qsgd": LinkSubject(ErrorFeedback(QSGD(4)), error=0.1, after=60),
    "float16": LinkSubject(ErrorFeedback(TopK(0.3), Memory("float16")), error=1e-2, after=20),
    "learned": LinkSubject(LearnedEntropy(Scalar(4, -8.0, 8.0)), error=16 / 15),
    "learned, pairs": LinkSubject(LearnedEntropy(Lattice(3))),
    "learned, tuples": LinkSubject(LearnedEntropy(ProductQuantised(2, 4))),
}


@pytest.mark.parametrize("check", LINK_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("subject", SUBJECTS.values(), ids=list(SUBJECTS))
def test_a_link_conforms(subject, check):
    check(subject)


def test_a_link_whose_memory_is_on_a_disk_conforms(tmp_path: Path):
    check_link(LinkSubject(ErrorFeedback(TopK(0.3), Disk(tmp_path)), error=1e-5, after=20))


# Links that break it, each by a few lines; most are error feedback, written once more


class Table:
    """Either end of error feedback."""

    def __init__(self, link, rows, width):
        self.link, self.codec, self.width = link, link.codec, width
        self.known = torch.zeros(rows, width)

    def send(self, x, rows, key, saliency=None):
        body = self.codec.encode(x.detach() - self.known[rows], key)
        self.learn(self.codec.decode(body, (len(rows), self.width), key), rows)
        return body

    def learn(self, change, rows):
        if not torch.isfinite(self.known[rows] + change).all():
            raise Diverged("the table left the finite numbers")
        self.known[rows] += change

    def delivered(self, body, rows, key):
        return self.known[rows]

    def receive(self, body, rows, key):
        self.learn(self.codec.decode(body, (len(rows), self.width), key), rows)
        return self.known[rows]

    def state_dict(self):
        return {"known": self.known}

    def load_state_dict(self, state):
        self.known = state["known"].clone()


@dataclass(frozen=True)
class Planted(ErrorFeedback):
    """Error feedback with ends of any class."""

    sends: type = Table
    receives: type = Table

    def sender(self, rows, width, name):
        return self.sends(self, rows, width)

    def receiver(self, rows, width, name):
        return self.receives(self, rows, width)


def planted(sends: type = Table, receives: type = Table) -> Planted:
    return Planted(TopK(0.3), sends=sends, receives=receives)


class Hopeful(Table):
    """Takes for known what it meant, not what the codec made of it."""

    def send(self, x, rows, key, saliency=None):
        body = super().send(x, rows, key)
        self.known[rows] = x.detach()
        return body


class Sorting(Table):
    """Adds to the rows in another order than they came."""

    def learn(self, change, rows):
        super().learn(change, np.sort(rows))


class Rounding(Table):
    """Keeps fewer digits than the other end."""

    def learn(self, change, rows):
        super().learn(change, rows)
        self.known[rows] = self.known[rows].half().float()


class Asked(Table):
    """Counts what was delivered as known once more."""

    def delivered(self, body, rows, key):
        told = self.known[rows]
        self.known[rows] = told * (1 + 2**-10)
        return told


class Late(Table):
    """Looks at what its sender knows by now, as only one process can."""

    newest: Table

    def send(self, x, rows, key, saliency=None):
        Late.newest = self
        return super().send(x, rows, key)

    def receive(self, body, rows, key):
        super().receive(body, rows, key)
        return Late.newest.known[rows]


class Stubborn(Table):
    """Says of one row what belongs to another, on both ends."""

    def delivered(self, body, rows, key):
        return super().delivered(body, np.sort(rows), key)

    def receive(self, body, rows, key):
        super().receive(body, rows, key)
        return self.known[np.sort(rows)]


class Forgetful(Table):
    """Has nothing to keep."""

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


class Hazy(Table):
    """Saves half of the digits."""

    def state_dict(self):
        return {"known": self.known.half()}

    def load_state_dict(self, state):
        self.known = state["known"].float()


class Peculiar(Table):
    """Has a state that no checkpoint can hold."""

    def state_dict(self):
        return {"known": self.known, "link": self.link}


class Scribbling(Table):
    """Computes the difference in place."""

    def send(self, x, rows, key, saliency=None):
        body = super().send(x, rows, key)
        x.detach().sub_(self.known[rows])
        return body


class Holding(Table):
    """Puts off what it does until the next message, and keeps what it was given till then."""

    last = None

    def receive(self, body, rows, key):
        if self.last is not None:
            self.known[self.last[0]] = self.last[1]
        got = self.known[rows] + self.codec.decode(body, (len(rows), self.width), key)
        self.last = rows, got
        return got


class Drawing(Table):
    """Draws from the generator that all share."""

    def send(self, x, rows, key, saliency=None):
        torch.rand(1)
        return super().send(x, rows, key)


class Numb(Table):
    """Sends what is not finite as 0."""

    def send(self, x, rows, key, saliency=None):
        return super().send(x.detach().nan_to_num(0, 0, 0), rows, key)


class Hoarding(Table):
    """Keeps every message."""

    def __init__(self, link, rows, width):
        super().__init__(link, rows, width)
        self.bodies = {}

    def receive(self, body, rows, key):
        self.bodies[key.round] = [super().receive(body, rows, key).tolist()]
        return self.known[rows]


@dataclass(frozen=True)
class AnyOrder(Planted):
    """Says that messages may be lost."""

    delivery = Delivery.ANY


@dataclass(frozen=True)
class Short(Direct):
    """Claims a byte too few."""

    def bytes_at_most(self, rows, width):
        return super().bytes_at_most(rows, width) - 1


@dataclass(frozen=True)
class Fixed(Direct):
    """Claims a size that hangs on the values."""

    fixed_size = True


@dataclass(frozen=True)
class Growing(Direct):
    """Claims more for a round than for any."""

    def at(self, round):
        return replace(self, codec=Float(32))


@dataclass(frozen=True)
class Everywhere(Planted):
    """Takes held-out rows, too, and remembers them."""

    def held_out(self):
        return self


@dataclass(frozen=True)
class Elsewhere(Direct):
    """Remembers nothing, and leaves held-out rows to another."""

    def held_out(self):
        return Direct(Scalar(8))


_TABLES: dict[tuple[type, int], Table] = {}


@dataclass(frozen=True)
class Common(Planted):
    """Has one table for all streams of a width."""

    def sender(self, rows, width, name):
        return _TABLES.setdefault(("sender", width), Table(self, rows, width))

    def receiver(self, rows, width, name):
        return _TABLES.setdefault(("receiver", width), Table(self, rows, width))


@dataclass(frozen=True)
class Free(Planted):
    """Says that nothing is remembered."""

    def bytes_remembered(self, rows, width):
        return 0


@dataclass
class Changing:
    """Is not frozen."""

    codec: Codec
    delivery, fixed_size = Delivery.ANY, True
    sender, receiver, bytes_remembered = Direct.sender, Direct.receiver, Direct.bytes_remembered
    at, held_out, warm_up, bytes_at_most = (
        *(Direct.at, Direct.held_out),
        *(Direct.warm_up, Direct.bytes_at_most),
    )


class Careless:
    """The receiving end of exact numbers that looks at no length."""

    def __init__(self, width):
        self.width = width

    def receive(self, body, rows, key):
        return torch.from_numpy(np.frombuffer(body, "<f4").copy()).reshape(len(rows), self.width)

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


class Trusting(Careless):
    """Takes the room that the body asks for."""

    def receive(self, body, rows, key):
        room = np.zeros(int.from_bytes(body[:4], "little"), np.int8)
        return Direct().receiver(0, self.width, "").receive(body, rows, key) + 0 * len(room)


class Eager(Careless):
    """Takes the room for all rows before it looks at the body."""

    def receive(self, body, rows, key):
        room = torch.empty(len(rows), self.width)
        return room.copy_(Direct().receiver(0, self.width, "").receive(body, rows, key))


class Believing(Careless):
    """Looks at the length alone."""

    def receive(self, body, rows, key):
        if len(body) != 4 * len(rows) * self.width:
            raise RemoteProtocolError("too long, or too short")
        return super().receive(body, rows, key)


@dataclass(frozen=True)
class Received(Direct):
    """Exact numbers, with a receiving end of any class."""

    receives: type = Careless

    def receiver(self, rows, width, name):
        return self.receives(width)


KNOWN = {"error": 1e-5, "after": 20}
PLANTED = [
    (planted(Hopeful), "keeps_both_ends_together", "the ends drift apart"),
    (planted(receives=Sorting), "keeps_both_ends_together", "the ends drift apart"),
    (planted(receives=Rounding), "keeps_both_ends_together", "the ends drift apart"),
    (planted(Asked), "keeps_both_ends_together", "asked twice what was delivered"),
    (planted(Late, Late), "keeps_both_ends_together", "a receiver that is behind its sender"),
    (planted(Stubborn, Stubborn), "brings_values_to_their_rows", "have not arrived"),
    (AnyOrder(TopK(0.3)), "lives_with_what_is_lost", "after others were lost"),
    (planted(Forgetful), "goes_on_from_its_state", "a sender that goes on .* in other bytes"),
    (planted(receives=Forgetful), "goes_on_from_its_state", "a receiver that goes on .* forgets"),
    (planted(Hazy), "goes_on_from_its_state", "state_dict forgets something"),
    (planted(receives=Hazy), "goes_on_from_its_state", "state_dict forgets something"),
    (planted(Peculiar), "goes_on_from_its_state", "cannot hold the state of the sender.*Planted"),
    (Short(), "predicts_its_size", "has 192 bytes, and bytes_at_most says 191"),
    (Fixed(Entropy(Scalar(4))), "predicts_its_size", "zeros, which a plan sends, have 19"),
    (Growing(Float(16)), "predicts_its_size", "for any round and 192 for round 0"),
    (Everywhere(TopK(0.3)), "takes_held_out_rows_one_by_one", "held_out.. remembers"),
    (Elsewhere(), "takes_held_out_rows_one_by_one", "takes held-out rows itself"),
    (Common(TopK(0.3)), "keeps_its_streams_apart", "streams of one link share state"),
    (planted(Scribbling), "leaves_alone_what_it_is_given", "changed the values of message 0"),
    (planted(receives=Holding), "leaves_alone_what_it_is_given", "and others changed since"),
    (planted(Drawing), "leaves_alone_what_it_is_given", "draws from the global generator"),
    (planted(Numb), "refuses_what_is_not_finite", "nan is sent without Diverged"),
    (Received(receives=Believing), "refuses_garbage", "become what is not finite"),
    (Received(), "refuses_garbage", "raise RuntimeError, not RemoteProtocol"),
    (Received(receives=Trusting), "refuses_garbage", "allocated by a number found in them"),
    (Received(receives=Eager), "refuses_before_it_allocates", "RuntimeError, not RemoteProtocol"),
    (Free(TopK(0.3)), "remembers_no_more_than_it_says", "and bytes_remembered says 0"),
    (planted(receives=Hoarding), "remembers_no_more_than_it_says", "the receiver of a table"),
    (Changing(Float()), "is_a_value", "codec can be changed"),
]


@pytest.mark.parametrize(("link", "check", "why"), PLANTED)
def test_a_link_that_breaks_its_contract_is_found(link, check, why):
    checks = {each.__name__: each for each in LINK_CHECKS}
    with pytest.raises(AssertionError, match=why):
        checks[check](LinkSubject(link, **KNOWN))


def test_the_planted_links_break_nothing_else():
    check_link(LinkSubject(planted(), **KNOWN))
