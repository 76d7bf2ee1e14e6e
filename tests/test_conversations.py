"""What two processes say through a third: it opens at the other end alone, and is of now."""

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


def introduce(one, other):
    """Let one introduce itself, and both answer as long as they should; none is lost."""
    body = one.introduction()
    for _ in range(5):
        if not other.introduced(body):
            return
        body = other.introduction()
        one, other = other, one
    raise AssertionError("they never end")


def acquainted(about=b"job 7"):
    """Return two ends that both seal."""
    bank, shop = pair(about)
    introduce(bank, shop)
    assert bank.seals
    assert shop.seals
    return bank, shop


def say(sender, receiver, datagram):
    return receiver.opened(sender.sealed(datagram))


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30))
def test_whatever_is_lost_what_is_sealed_is_read_and_both_seal_in_the_end(told):
    ends = pair()
    for by_the_first, comes in told:
        sender, receiver = ends if by_the_first else reversed(ends)
        if sender.seals:
            body = sender.sealed(b"said")
            assert not comes or receiver.opened(body) == b"said"
        else:
            body = sender.introduction()
            if comes:
                receiver.introduced(body)
    introduce(*ends)
    introduce(*reversed(ends))
    assert all(end.seals for end in ends)
    for sender, receiver in (ends, ends[::-1]):
        assert say(sender, receiver, b"at last") == b"at last"


def test_an_answer_goes_back_until_both_know_of_both_and_no_longer():
    bank, shop = pair()
    assert shop.introduced(bank.introduction())  # the bank knows nobody
    assert not shop.seals
    assert bank.introduced(shop.introduction())
    assert bank.seals
    assert shop.introduced(bank.introduction())
    assert shop.seals
    assert not bank.introduced(shop.introduction())


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


@pytest.mark.parametrize("about", [b"job 6", b"job 7"])
def test_nothing_of_an_earlier_conversation_is_taken_for_this_one(about):
    """Also where it was about the same: whoever numbers jobs may give a number twice."""
    old_bank, old_shop = pair(about)
    old = [old_bank.introduction(), old_shop.introduction()]
    introduce(old_bank, old_shop)
    old += [old_bank.introduction(), old_shop.introduction()]
    old_words = [old_bank.sealed(b"old"), old_shop.sealed(b"old")]

    bank, shop = pair()
    for end in (bank, shop):
        for body in old:
            end.introduced(body)
        assert not end.seals
        assert [end.opened(body) for body in old_words] == [None, None]
    introduce(bank, shop)  # nothing that was brought keeps the two apart
    assert bank.seals
    assert shop.seals
    for end, other in ((bank, shop), (shop, bank)):
        assert [end.introduced(body) for body in old] == [False] * 4
        assert [end.opened(body) for body in old_words] == [None, None]
        assert say(end, other, b"new") == b"new"


def test_earlier_introductions_in_between_hold_nobody_up():
    earlier = conversation("shop", "bank")
    bank, shop = pair()
    for _ in range(3):
        bank.introduced(earlier.introduction())
        introduce(shop, bank)
    assert bank.seals
    assert say(shop, bank, b"said") == b"said"


def test_an_introduction_introduces_nobody_else():
    bank, _ = pair()
    for other in (conversation("insurer", "bank"), conversation("bank", "shop"), pair(b"job 6")[1]):
        assert not bank.introduced(other.introduction())
    assert bank._heard is None


def test_what_is_sent_back_to_its_sender_does_not_open():
    bank, shop = acquainted()
    assert bank.opened(bank.sealed(b"said")) is None
    assert not bank.introduced(bank.introduction())
    assert say(shop, bank, b"said") == b"said"


def test_what_opens_proves_who_has_sealed_it():
    bank, shop = pair()
    shop.introduced(bank.introduction())
    bank.introduced(shop.introduction())
    assert not shop.seals
    assert say(bank, shop, b"said") == b"said"
    assert shop.seals


@pytest.mark.parametrize("half", [bytes(32), b"\1" + bytes(31)])
def test_a_half_with_which_all_would_know_the_key_is_not_taken(half):
    bank, shop = pair()
    forged = bank.introduction().replace(bank._key.public, half)
    assert forged != bank.introduction()
    assert not shop.introduced(forged)
    assert shop._heard is None
    introduce(bank, shop)
    assert shop.seals


@given(st.binary(max_size=300))
def test_bytes_of_anybody_are_not_taken(body):
    _, shop = acquainted()
    fresh, _ = pair()
    for end in (shop, fresh):
        assert end.opened(body) is None
        assert not end.introduced(body)
