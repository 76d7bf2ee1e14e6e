"""What two processes say through a third: it opens at the other end alone, once both know both."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.secure import Conversation

SECRETS = count(1)


def conversation(own, peer, about=b"job 7"):
    return Conversation(own, peer, about, next(SECRETS).to_bytes(32, "big"))


def pair(about=b"job 7"):
    return conversation("bank", "shop", about), conversation("shop", "bank", about)


def acquainted(about=b"job 7"):
    """Return two ends that both seal."""
    bank, shop = pair(about)
    shop.introduced(bank.introduction(b""))
    bank.introduced(shop.introduction(b""))
    shop.opened(bank.sealed(b""))
    assert bank.seals
    assert shop.seals
    return bank, shop


def say(sender, receiver, datagram):
    """Carry a datagram in the way that is due; return what comes."""
    if sender.seals:
        return receiver.opened(sender.sealed(datagram))
    return receiver.introduced(sender.introduction(datagram))


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30))
def test_whatever_is_lost_what_comes_is_read_and_both_seal_in_the_end(told):
    ends = pair()
    for by_the_first, comes in told:
        sender, receiver = ends if by_the_first else reversed(ends)
        if comes:
            assert say(sender, receiver, b"said") == b"said"
        elif sender.seals:
            sender.sealed(b"lost")
        else:
            sender.introduction(b"lost")
    for _ in range(2):
        for sender, receiver in (ends, ends[::-1]):
            assert say(sender, receiver, b"at last") == b"at last"
    assert all(end.seals for end in ends)


@pytest.mark.parametrize("datagram", [b"", b"a", bytes(2**20)])
def test_what_is_sealed_opens_and_is_28_bytes_longer(datagram):
    bank, shop = acquainted()
    body = bank.sealed(datagram)
    assert shop.opened(body) == datagram
    assert len(body) == len(datagram) + 28
    assert datagram not in body or len(datagram) < 16


def test_the_same_words_are_never_the_same_bytes():
    bank, _ = acquainted()
    bodies = [bank.sealed(b"the same") for _ in range(1000)]
    assert len({body[:12] for body in bodies}) == 1000  # no nonce comes twice
    assert len({body[12:] for body in bodies}) == 1000


def test_who_changes_a_bit_or_cuts_it_off_is_not_heard():
    bank, shop = acquainted()
    body = bank.sealed(b"an embedding")
    for at in range(8 * len(body)):
        changed = bytearray(body)
        changed[at // 8] ^= 1 << at % 8
        assert shop.opened(bytes(changed)) is None
    for length in range(len(body)):
        assert shop.opened(body[:length]) is None
    assert shop.opened(body + b"\0") is None
    assert shop.opened(body) == b"an embedding"


def test_nothing_of_another_conversation_is_taken_for_this_one():
    bank, shop = acquainted()
    earlier_bank, _ = acquainted(b"job 6")
    again_bank, _ = acquainted()  # of the same job, before something was stopped
    for other in (earlier_bank, again_bank):
        assert shop.opened(other.sealed(b"old")) is None
        assert shop.introduced(other.introduction(b"old")) is None
    assert say(bank, shop, b"new") == b"new"
    # What introduces one end in a job introduces nobody else, there or elsewhere.
    stranger = conversation("shop", "bank")
    assert stranger.introduced(earlier_bank.introduction(b"old")) is None
    assert stranger.introduced(conversation("shop", "bank").introduction(b"own")) is None
    assert stranger.introduced(conversation("insurer", "bank").introduction(b"mine")) is None
    assert not stranger.seals


def test_what_is_sent_back_to_its_sender_does_not_open():
    bank, shop = acquainted()
    assert bank.opened(bank.sealed(b"said")) is None
    assert bank.introduced(bank.introduction(b"said")) is None
    assert say(shop, bank, b"said") == b"said"


def test_nothing_is_sealed_for_who_may_not_open_it():
    bank, shop = pair()
    shop.introduced(bank.introduction(b""))
    assert not shop.seals  # whether the bank knows of the shop the shop does not
    bank.introduced(shop.introduction(b""))
    assert bank.seals
    assert not shop.seals
    shop.introduced(bank.introduction(b""))
    assert shop.seals


@pytest.mark.parametrize("half", [bytes(32), b"\1" + bytes(31)])
def test_a_half_with_which_all_would_know_the_key_is_not_taken(half):
    bank, shop = pair()
    body = bank.introduction(b"said")
    forged = body.replace(bank._key.public, half)
    assert forged != body
    assert shop.introduced(forged) is None
    assert shop.introduced(body) == b"said"


def test_an_introduction_that_knows_another_of_us_is_of_an_earlier_one():
    bank, shop = pair()
    bank.introduced(conversation("shop", "bank").introduction(b""))  # then that one was stopped
    assert shop.introduced(bank.introduction(b"to whom?")) is None
    assert not shop.seals


@given(st.binary(max_size=300))
def test_bytes_of_anybody_are_not_taken(body):
    _, shop = acquainted()
    assert shop.opened(body) is None
    assert shop.introduced(body) is None
    fresh, _ = pair()
    assert fresh.opened(body) is None
    assert fresh.introduced(body) is None
