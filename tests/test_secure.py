"""Keys, seals, shares and masks: published answers, what they promise, and foreign bytes."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR, ECB
from cryptography.hazmat.primitives.cmac import CMAC
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency, chisquare

from colonnade.errors import ConfigurationError, LocalProtocolError, RemoteProtocolError
from colonnade.kernels import gf256
from colonnade.kernels.packing import pack_numbers
from colonnade.kernels.words import pack_words, packed_bytes, unpack_words, word_type
from colonnade.layout import Layout
from colonnade.secure import (
    ANNOUNCEMENT_BYTES,
    SEAL_BYTES,
    SEAL_KEY_BYTES,
    AgreementKey,
    Identity,
    Keystream,
    Seal,
    Secrets,
    Total,
    announce,
    announced,
    bits_for,
    checked_identity,
    context,
    mask,
    masked_body,
    recover,
    share,
    verify,
    words_of,
)

# No law here is about how fast a machine is.
unhurried = settings(suppress_health_check=[HealthCheck.too_slow])

PRIME = 2**255 - 19


def key_of(number: int, size: int = 16) -> bytes:
    return hashlib.sha512(number.to_bytes(8, "little")).digest()[:size]


def unless_refused(function, named: str):
    """Return what a function of foreign bytes does, or None if it refuses them by name."""
    try:
        return function()
    except RemoteProtocolError as error:
        told = str(error)
    assert named in told
    return None


def hexed(text: str) -> bytes:
    return bytes.fromhex(text.replace(" ", ""))


# Contexts

FIELDS = st.lists(st.text(max_size=4) | st.integers(-300, 300) | st.binary(max_size=4), max_size=4)


@given(st.text(max_size=4), FIELDS, st.text(max_size=4), FIELDS)
@example("a", ["bc"], "a", ["b", "c"])
@example("a", [1], "a", ["1"])
@example("a", ["1"], "a", [b"1"])
@example("a", ["", ""], "a", [""])
@example("a", ["b"], "ab", [])
@unhurried
def test_different_contexts_have_different_bytes(label, fields, other_label, others):
    def told(of):
        return [(type(field), field) for field in of]

    same = label == other_label and told(fields) == told(others)
    assert (context(label, *fields) == context(other_label, *others)) == same


# Published answers


def extracted_and_expanded(secret: bytes, salt: bytes, info: bytes, size: int) -> bytes:
    """HKDF-SHA256 in the standard library's words."""
    key = hmac.digest(salt or bytes(32), secret, "sha256")
    made, last = b"", b""
    while len(made) < size:
        last = hmac.digest(key, last + info + bytes([len(made) // 32 + 1]), "sha256")
        made += last
    return made[:size]


def test_hkdf_gives_the_answer_of_rfc_5869():
    answer = extracted_and_expanded(
        bytes([0x0B] * 22), bytes(range(13)), bytes(range(0xF0, 0xFA)), 42
    )
    assert answer == hexed(
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"
    )


# RFC 7748, 6.1
ALICE = hexed("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
BOB = hexed("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
ALICE_PUBLIC = hexed("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a")
BOB_PUBLIC = hexed("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f")
AGREED = hexed("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")


@pytest.mark.parametrize("size", [16, 32, 64])
def test_agreement_is_that_of_rfc_7748_through_hkdf_over_both_public_keys(size):
    alice, bob = AgreementKey(ALICE), AgreementKey(BOB)
    assert (alice.public, bob.public) == (ALICE_PUBLIC, BOB_PUBLIC)
    info = context("agreement", ALICE_PUBLIC, BOB_PUBLIC, b"a use")  # in the order of the bytes
    expected = extracted_and_expanded(AGREED, b"", info, size)
    assert alice.shared(bob.public, b"a use", "bob", size) == expected
    assert bob.shared(alice.public, b"a use", "alice", size) == expected


# RFC 8032, 7.1: tests 1 and 3
SIGNED = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701"
        "cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f7609"
        "84dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
]


@pytest.mark.parametrize(("secret", "public", "message", "signature"), SIGNED)
def test_signatures_are_those_of_rfc_8032(secret, public, message, signature):
    identity = Identity(hexed(secret))
    assert identity.public == hexed(public)
    assert identity.sign(hexed(message)) == hexed(signature)
    verify(hexed(public), hexed(message), hexed(signature), "a message")
    with pytest.raises(RemoteProtocolError, match="a message"):
        verify(hexed(public), hexed(message) + b"x", hexed(signature), "a message")


def sealed_by_rfc_5297(key: bytes, header: bytes, plain: bytes) -> bytes:
    """AES in SIV mode with one header, after the RFC's pseudocode."""

    def mac(message: bytes) -> bytes:
        made = CMAC(AES(key[: len(key) // 2]))
        made.update(message)
        return made.finalize()

    def doubled(block: bytes) -> int:
        number = int.from_bytes(block) << 1
        return number % 2**128 ^ (0x87 if number >> 128 else 0)

    block = doubled(mac(bytes(16))) ^ int.from_bytes(mac(header))
    if len(plain) >= 16:
        end = (int.from_bytes(plain[-16:]) ^ block).to_bytes(16)
        iv = mac(plain[:-16] + end)
    else:
        padded = (plain + b"\x80").ljust(16, b"\0")
        iv = mac((doubled(block.to_bytes(16)) ^ int.from_bytes(padded)).to_bytes(16))
    counter = int.from_bytes(iv) & ~(1 << 63 | 1 << 31)
    cipher = Cipher(AES(key[len(key) // 2 :]), CTR(counter.to_bytes(16)))
    return iv + cipher.encryptor().update(plain)


def test_seals_are_those_of_rfc_5297():
    assert sealed_by_rfc_5297(
        hexed("fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"),
        hexed("101112131415161718191a1b1c1d1e1f2021222324252627"),
        hexed("112233445566778899aabbccddee"),
    ) == hexed("85632d07c6e8f37f950acd320a2ecc9340c02b9690c4dc04daef7f6afe5c")  # A.1
    for size in (1, 15, 16, 17, 48, 1000):
        key, plain = key_of(size, SEAL_KEY_BYTES), key_of(1, 64) * 16
        expected = sealed_by_rfc_5297(key, b"a context", plain[:size])
        assert Seal(key).seal(plain[:size], b"a context") == expected


def test_a_keystream_is_aes_of_a_counter_from_zero():
    for size in (1, 16, 100, 70_000, 200_001):
        blocks = -(-size // 16)
        counters = b"".join(block.to_bytes(16) for block in range(blocks))
        expected = Cipher(AES(key_of(3)), ECB()).encryptor().update(counters)[:size]
        stream, drawn = Keystream(key_of(3)), np.empty(size, dtype=np.uint8)
        stream.fill(drawn)
        assert drawn.tobytes() == expected
        assert stream.position == size
        assert Keystream(key_of(3)).bytes(size) == expected


# Identities and announcements


def test_an_identity_lasts_and_is_its_owners_own():
    for secrets in (Secrets.insecure(7), Secrets(key_of(7, 32))):
        starts = [secrets.begin("bank", incarnation) for incarnation in (0, 1)]
        public = {Identity(source.identity).public for source in starts}
        assert public == {Identity.of(secrets, "bank").public}
        assert Identity.of(secrets, "shop").public not in public  # with the same root


def drawn(source) -> list[bytes]:
    noise = source.noise("embedding", 3).bytes(16)
    return [source.key("mask", 3), source.keystream("shares", 3).bytes(16), noise]


def test_who_shares_a_root_or_a_number_draws_apart():
    """Two organisations, two runs of one of them at a time, and two starts of a run."""
    secrets = Secrets(key_of(7, 32))
    starts = [("bank", 0), ("shop", 0), ("bank", 0), ("bank", 1)]
    sources = [secrets.begin(name, incarnation) for name, incarnation in starts]
    once = [drawn(source) for source in sources]
    assert len({body for bodies in once for body in bodies}) == 12
    assert [drawn(source) for source in sources] == once  # whoever began after it


def test_a_simulation_repeats_and_keeps_organisations_apart():
    once, again = ([Secrets.insecure(7).begin(name, 0) for name in ("a", "b")] for _ in range(2))
    assert [drawn(source) for source in once] == [drawn(source) for source in again]
    one, other = map(drawn, once)
    assert not set(one) & set(other)
    resumed = drawn(Secrets.insecure(7).begin("a", 1))
    assert resumed[-1] == one[-1]  # noise alone
    assert not set(resumed[:-1]) & set(one)


def test_roots_are_not_shown_and_have_one_length():
    secrets = Secrets(b"r" * 32)
    assert "rrr" not in f"{secrets} {secrets.begin('bank', 0)}"
    with pytest.raises(LocalProtocolError, match="32 bytes, not 31"):
        Secrets(bytes(31))


LAYOUT = Layout(("bank",), "insurer", {"bank": 3}, 10, seed=5)


def test_a_seed_is_for_declared_simulations_and_for_nothing_else():
    simulated, own = replace(LAYOUT, simulated=True), Secrets(key_of(7, 32))
    assert LAYOUT.secrets_for("bank", own) == own
    assert LAYOUT.secrets_for("bank") != LAYOUT.secrets_for("bank")
    for brought in (None, Secrets.insecure(5)):
        assert simulated.secrets_for("bank", brought) == Secrets.insecure(5)
    with pytest.raises(ConfigurationError, match="'bank' are made of a seed"):
        LAYOUT.secrets_for("bank", Secrets.insecure(5))
    for brought in (own, Secrets.insecure(6)):
        with pytest.raises(ConfigurationError, match="'bank' has secrets of its own"):
            simulated.secrets_for("bank", brought)


def session(whose: str = "bank", run: str = "a run", start: int = 0) -> bytes:
    return context("session", run, whose, start)


BANK, SHOP = Identity(key_of(1, 32)), Identity(key_of(2, 32))
HELLO = announce(BANK, AgreementKey(ALICE).public, session())


def test_an_announcement_is_read_where_it_was_meant_alone():
    assert announced(HELLO, BANK.public, session(), "bank") == ALICE_PUBLIC
    swapped = announce(SHOP, BOB_PUBLIC, session())  # the relay's own key, signed by its own
    spliced = BOB_PUBLIC + HELLO[32:]
    for body, pinned, where in [
        (HELLO, SHOP.public, session()),
        (HELLO, BANK.public, session("shop")),
        (HELLO, BANK.public, session(run="another run")),
        (HELLO, BANK.public, session(start=1)),
        (swapped, BANK.public, session()),
        (spliced, BANK.public, session()),
    ]:
        with pytest.raises(RemoteProtocolError, match="'bank' is not signed by the identity"):
            announced(body, pinned, where, "bank")


@given(st.integers(0, 8 * ANNOUNCEMENT_BYTES - 1))
@unhurried
def test_an_announcement_with_any_bit_changed_is_refused(bit):
    body = bytearray(HELLO)
    body[bit // 8] ^= 1 << bit % 8
    with pytest.raises(RemoteProtocolError, match="'bank'"):
        announced(bytes(body), BANK.public, session(), "bank")


@given(st.binary(max_size=200) | st.binary(min_size=96, max_size=96), st.binary(max_size=40))
@unhurried
def test_no_bytes_are_an_announcement_by_chance(body, pinned):
    for key in (BANK.public, pinned, pinned.ljust(32, b"\0")[:32]):
        with pytest.raises(RemoteProtocolError, match="'bank'"):
            announced(body, key, session(), "bank")


def low_order_identities() -> list[bytes]:
    of_order_8 = int.from_bytes(
        hexed("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), "little"
    )
    ys = [0, 1, PRIME - 1, of_order_8, PRIME - of_order_8, PRIME, PRIME + 1]
    return [(y | sign << 255).to_bytes(32, "little") for y in ys for sign in (0, 1)]


@pytest.mark.parametrize("public", low_order_identities(), ids=bytes.hex)
def test_an_identity_under_which_anybody_could_sign_is_no_identity(public):
    with pytest.raises(RemoteProtocolError, match="'bank' is a key under which anybody"):
        checked_identity(public, "bank")
    forged = (1).to_bytes(32, "little") + bytes(32)  # of the neutral element: right for any message
    with pytest.raises(RemoteProtocolError, match="a message"):
        verify(public, b"a message", forged, "a message")


def test_identities_have_one_length():
    assert checked_identity(BANK.public, "bank") == BANK.public
    with pytest.raises(RemoteProtocolError, match="'bank' has 31 bytes, expected 32"):
        checked_identity(BANK.public[:31], "bank")
    with pytest.raises(LocalProtocolError):
        Identity(bytes(31))
    with pytest.raises(RemoteProtocolError, match="a message has a signature of 65 bytes"):
        verify(BANK.public, b"", bytes(65), "a message")


# Agreement


def low_order_points() -> list[bytes]:
    points = [
        *(0, 1, PRIME - 1, PRIME, PRIME + 1),
        325606250916557431795983626356110631294008115727848805560023387167927233504,
        39382357235489614581723060781553021112529911719440698176882885853963445705823,
    ]
    return [point.to_bytes(32, "little") for point in points]


@pytest.mark.parametrize("point", low_order_points(), ids=bytes.hex)
def test_a_key_whose_result_everybody_knows_is_refused(point):
    with pytest.raises(RemoteProtocolError, match="'shop' has a low order"):
        AgreementKey(ALICE).shared(point, b"a use", "shop")


def test_agreement_tells_owners_uses_and_itself_apart():
    alice, bob, eve = AgreementKey(ALICE), AgreementKey(BOB), AgreementKey(key_of(9, 32))
    keys = {
        alice.shared(bob.public, b"a use", "bob"),
        alice.shared(bob.public, b"another use", "bob"),
        alice.shared(eve.public, b"a use", "eve"),
        bob.shared(eve.public, b"a use", "eve"),
    }
    assert len(keys) == 4
    with pytest.raises(RemoteProtocolError, match="'bob' is the one that we sent"):
        alice.shared(alice.public, b"a use", "bob")
    with pytest.raises(LocalProtocolError):
        AgreementKey(bytes(33))


def test_a_recovered_key_must_be_its_owners():
    assert AgreementKey.recovered(BOB, BOB_PUBLIC, "bob").public == BOB_PUBLIC
    with pytest.raises(RemoteProtocolError, match="mask key of 'bob' give another key"):
        AgreementKey.recovered(ALICE, BOB_PUBLIC, "bob")


@given(st.binary(max_size=40) | st.binary(min_size=32, max_size=32))
@unhurried
def test_bytes_agree_or_are_refused(other):
    key = unless_refused(lambda: AgreementKey(ALICE).shared(other, b"a use", "bob"), "'bob'")
    assert key is None or len(key) == 16
    assert key is None or len(other) == 32


# Seals

SEALED_FOR = context("shares", "bank", "shop", 0, 0, 3)


def test_a_seal_opens_under_its_key_and_context_alone():
    seal, plain = Seal(key_of(1, 64)), b"twenty bytes of text"
    body = seal.seal(plain, SEALED_FOR)
    assert len(body) == 20 + SEAL_BYTES
    assert seal.opened(body, SEALED_FOR, 20, "the shares of 'bank'") == plain
    others = [
        context("shares", "shop", "bank", 0, 0, 3),  # sent back
        context("shares", "bank", "mill", 0, 0, 3),  # to somebody else
        context("shares", "bank", "shop", 0, 0, 4),  # in another place
        context("shares", "bank", "shop", 1, 0, 3),  # of an earlier start
    ]
    for other in others:
        with pytest.raises(RemoteProtocolError, match="the shares of 'bank' do not open"):
            seal.opened(body, other, 20, "the shares of 'bank'")
    with pytest.raises(RemoteProtocolError, match="the shares of 'bank' do not open"):
        Seal(key_of(2, 64)).opened(body, SEALED_FOR, 20, "the shares of 'bank'")


def test_a_context_that_is_sealed_twice_gives_nothing_away():
    # Under a stream cipher whose nonce comes again, bodies would differ as plaintexts do.
    seal = Seal(key_of(1, 64))
    one, two = (seal.seal(plain, SEALED_FOR) for plain in (bytes(64), bytes(63) + b"\1"))
    assert seal.seal(bytes(64), SEALED_FOR) == one  # as a replay of the run must give
    assert sum(a == b for a, b in zip(one, two, strict=True)) < 8


@given(st.integers(0, 8 * (20 + SEAL_BYTES) - 1))
@unhurried
def test_a_sealed_message_with_any_bit_changed_is_refused(bit):
    seal = Seal(key_of(1, 64))
    body = bytearray(seal.seal(bytes(20), SEALED_FOR))
    body[bit // 8] ^= 1 << bit % 8
    with pytest.raises(RemoteProtocolError, match="the shares of 'bank' do not open"):
        seal.opened(bytes(body), SEALED_FOR, 20, "the shares of 'bank'")


@given(st.binary(max_size=80), st.integers(0, 64))
@unhurried
def test_no_bytes_are_sealed_by_chance(body, size):
    with pytest.raises(RemoteProtocolError, match="the shares of 'bank'"):
        Seal(key_of(1, 64)).opened(body, SEALED_FOR, size, "the shares of 'bank'")


def test_what_cannot_be_sealed():
    with pytest.raises(LocalProtocolError, match="nothing to seal"):
        Seal(bytes(64)).seal(b"", SEALED_FOR)
    with pytest.raises(LocalProtocolError, match="64 bytes"):
        Seal(bytes(32))


# The field, and shares

ALL = np.arange(256, dtype=np.uint8)


def times() -> np.ndarray:
    """The product of every two elements, by the kernel."""
    return gf256.products(ALL[:, None], ALL[None, :])


def test_the_field_is_one():
    table = times()
    assert table.tolist() == [[gf256.product(a, b) for b in range(256)] for a in range(256)]
    assert (table == table.T).all()
    assert (table[1] == ALL).all()
    assert (table[0] == 0).all()
    for a in ALL:
        assert (table[a][ALL[:, None] ^ ALL] == table[a][:, None] ^ table[a]).all()  # a (b + c)
        assert (table[a][table] == table[table[a]]).all()  # a (b c) = (a b) c
    inverses = [gf256.inverse(a) for a in range(1, 256)]
    assert (table[range(1, 256), inverses] == 1).all()
    assert sorted(inverses) == list(range(1, 256))


def test_products_are_those_of_matrices():
    rng = np.random.default_rng(1)
    table = times()
    for m, k, n in [(1, 1, 1), (3, 2, 7), (4, 5, 8), (28, 19, 48), (2, 3, 1001)]:
        weights = rng.integers(0, 256, (m, k), dtype=np.uint8)
        rows = rng.integers(0, 256, (k, n), dtype=np.uint8)
        expected = np.bitwise_xor.reduce(table[weights[:, :, None], rows[None]], axis=1)
        assert (gf256.products(weights, rows) == expected).all()


class Every:
    """In place of noise: every choice of a one-byte secret's coefficients, each once."""

    def fill(self, words):
        degree = len(words)
        choices = np.indices([256] * degree, dtype=np.uint8).reshape(degree, -1)
        words[:] = choices


@pytest.mark.parametrize("secret", [0, 1, 0x53, 255])
def test_fewer_shares_than_the_threshold_are_uniform_whatever_the_secret(secret):
    for holders, threshold in [(2, 2), (4, 2), (5, 3)]:
        known = threshold - 1
        shares = share(bytes([secret]) * 256**known, holders, threshold, Every())
        for some in combinations(range(holders), known):
            seen = np.zeros(256**known, dtype=np.int64)
            for x in some:
                seen = 256 * seen + np.frombuffer(shares[x], dtype=np.uint8)
            # Each outcome comes of one choice of the coefficients
            assert (np.bincount(seen, minlength=256**known) == 1).all()


@pytest.mark.parametrize(
    ("holders", "threshold"), [(m, t) for m in range(2, 7) for t in range(2, m + 1)]
)
def test_every_set_that_is_large_enough_recovers(holders, threshold):
    secret = key_of(5, 48)
    shares = share(secret, holders, threshold, Keystream(key_of(4)))
    for count in range(1, holders + 1):
        for some in combinations(range(1, holders + 1), count):
            theirs = {x: shares[x - 1] for x in reversed(some)}
            if count >= threshold:
                assert recover(theirs, threshold, 48, "the keys of 'bank'") == secret
            else:
                with pytest.raises(RemoteProtocolError, match=f"{count} shares of the keys of"):
                    recover(theirs, threshold, 48, "the keys of 'bank'")


@pytest.mark.parametrize(("holders", "threshold"), [(28, 19), (255, 2), (255, 255)])
def test_many_holders_share(holders, threshold):
    secret = key_of(5, 33)
    shares = share(secret, holders, threshold, Keystream(key_of(4)))
    last = {x: shares[x - 1] for x in range(holders - threshold + 1, holders + 1)}
    assert recover(last, threshold, 33, "the keys of 'bank'") == secret
    assert recover(dict(enumerate(shares, 1)), threshold, 33, "the keys of 'bank'") == secret


def test_secrets_one_after_another_are_shared_as_one():
    one, two = key_of(5, 32), key_of(6, 16)
    shares = share(one + two, 4, 3, Keystream(key_of(4)))
    some = {x: shares[x - 1][32:] for x in (1, 3, 4)}
    assert recover(some, 3, 16, "a seed of 'bank'") == two


def test_shares_that_do_not_fit_are_refused_and_named():
    shares = dict(enumerate(share(key_of(5), 5, 3, Keystream(key_of(4))), 1))
    lie = bytes([shares[4][0] ^ 1]) + shares[4][1:]
    with pytest.raises(RemoteProtocolError, match=r"'bank' do not agree: .*of holder 4 are"):
        recover(shares | {4: lie}, 3, 16, "the keys of 'bank'")
    with pytest.raises(RemoteProtocolError, match=r"those of 'd' are not .* of 'a', 'b', 'c'"):
        recover(shares | {4: lie}, 3, 16, "the keys of 'bank'", "abcde")
    with pytest.raises(RemoteProtocolError, match="keys of 'bank' that holder 2 has is of 15"):
        recover(shares | {2: shares[2][1:]}, 3, 16, "the keys of 'bank'")
    for x in (0, 256, -1):
        with pytest.raises(RemoteProtocolError, match=f"keys of 'bank' is of holder {x}"):
            recover(shares | {x: shares[2]}, 3, 16, "the keys of 'bank'")


@pytest.mark.parametrize(("holders", "threshold"), [(4, 1), (4, 0), (4, 5), (1, 1), (256, 2)])
def test_impossible_thresholds_are_refused(holders, threshold):
    with pytest.raises(LocalProtocolError, match="cannot be shared"):
        share(b"secret", holders, threshold, Keystream(key_of(4)))


@given(st.dictionaries(st.integers(-2, 300), st.binary(max_size=5), max_size=6), st.integers(2, 4))
@unhurried
def test_shares_of_chance_are_a_secret_or_refused(shares, threshold):
    what = "the keys of 'bank'"
    secret = unless_refused(lambda: recover(shares, threshold, 4, what), what)
    assert secret is None or len(secret) == 4


# Words and masks

BITS = st.integers(1, 32)


@pytest.mark.parametrize("bits", range(1, 33))
def test_words_are_packed_as_numbers_are_and_come_back(bits):
    rng = np.random.default_rng(bits)
    for count in [*range(0, 26), 1000, 4099]:
        numbers = rng.integers(0, 2**bits, count)
        words = words_of(numbers, bits)
        body = pack_words(words, bits)
        assert body == pack_numbers(numbers, bits)
        assert len(body) == packed_bytes(count, bits) == -(-count * bits // 8)
        back = unpack_words(np.frombuffer(body, dtype=np.uint8), bits, count)
        assert back.dtype == word_type(bits)
        assert (back == numbers).all()
        above = rng.integers(0, 2 ** (8 * words.itemsize), count).astype(words.dtype)
        above &= words.dtype.type(~np.uint64(2**bits - 1))
        assert pack_words(words | above, bits) == body
        apart = np.repeat(words, 2)[::2]
        assert pack_words(apart, bits) == body


class Guarded:
    """numpy, with sixty-four bytes behind every new array that nobody may write to."""

    def __init__(self):
        self.made = []

    def __getattr__(self, name):
        return getattr(np, name)

    def empty(self, size, dtype):
        self.made.append(np.full(size + 64, 0xA5, dtype=dtype))
        return self.made[-1][:size]


@pytest.mark.parametrize("bits", range(1, 33))
def test_packing_stays_within_its_buffer(bits, monkeypatch):
    pack_words(np.zeros(1, dtype=word_type(bits)), bits)  # compiled before numpy is another
    numpy = Guarded()
    monkeypatch.setattr("colonnade.kernels.words.np", numpy)
    for count in range(26):
        pack_words(np.full(count, 2**bits - 1, dtype=word_type(bits)), bits)
    assert all((array[-64:] == 0xA5).all() for array in numpy.made)
    assert numpy.made or bits <= 8 or bits in (16, 32)


def test_bits_hold_the_highest_total_and_no_more():
    for total in [*range(1, 2000), 2**16 - 1, 2**16, 2**31, 2**32 - 1]:
        bits = bits_for(total)
        assert 2 ** (bits - 1) <= total < 2**bits
    for total in (-1, 2**32, 2**64):
        with pytest.raises(LocalProtocolError, match="32 bits"):
            bits_for(total)
    for bits in (0, 33):
        with pytest.raises(LocalProtocolError, match="1 to 32 bits"):
            Total(3, bits)


@pytest.mark.parametrize("numbers", [[-1, 0], [0, 8], [2**40, 0]])
def test_numbers_that_would_wrap_are_refused(numbers):
    with pytest.raises(LocalProtocolError, match="3 bits"):
        words_of(np.array(numbers), 3)


@given(st.data(), BITS, st.integers(2, 6), st.integers(1, 40))
@unhurried
def test_masks_of_pairs_vanish_and_own_masks_are_removed(data, bits, parties, count):
    numbers = st.lists(st.integers(0, 2**bits - 1), min_size=count, max_size=count)
    mine = [data.draw(numbers) for _ in range(parties)]
    total = Total(count, bits)
    for me in range(parties):
        words = words_of(np.array(mine[me]), bits)
        pairs = {other: Keystream(pair(me, other)) for other in range(parties) if other != me}
        above = [stream for other, stream in pairs.items() if other > me]
        below = [stream for other, stream in pairs.items() if other < me]
        mask(words, added=[Keystream(key_of(me)), *above], subtracted=below)
        total.add(masked_body(words, bits), f"party {me}")
    total.unmask(added=[Keystream(key_of(me)) for me in range(parties)])
    assert total.values.tolist() == (np.sum(mine, axis=0) % 2**bits).tolist()


def pair(one: int, other: int) -> bytes:
    return key_of(1000 + 100 * min(one, other) + max(one, other))


def test_pieces_make_no_difference():
    count = 200_003
    words = np.arange(count, dtype=np.uint16)
    streams = [Keystream(key_of(i)) for i in range(3)]
    mask(words, added=streams[:2], subtracted=streams[2:])
    one, two, three = (np.empty(count, dtype=np.uint16) for _ in range(3))
    for i, drawn in enumerate((one, two, three)):
        Keystream(key_of(i)).fill(drawn)
    assert (words == np.arange(count, dtype=np.uint16) + one + two - three).all()
    assert [stream.position for stream in streams] == [2 * count] * 3  # each byte once


def test_one_keystream_does_not_mask_twice():
    stream = Keystream(key_of(1))
    with pytest.raises(LocalProtocolError, match="masks once"):
        mask(np.zeros(3, dtype=np.uint8), added=[stream], subtracted=[stream])
    with pytest.raises(LocalProtocolError, match="one row"):
        mask(np.zeros((3, 3), dtype=np.uint8), added=[stream])


def test_uploads_that_do_not_fit_are_refused_and_named():
    total = Total(3, bits=12)
    body = masked_body(np.array([1, 2, 3], dtype=np.uint16), 12)
    for wrong in (b"", body[:-1], body + b"\0"):
        with pytest.raises(RemoteProtocolError, match=r"'bank' uploaded .* expected 5"):
            total.add(wrong, "bank")
    for bit in range(4, 8):
        padded = body[:-1] + bytes([body[-1] | 1 << bit])
        with pytest.raises(RemoteProtocolError, match="'bank' uploaded words whose last byte"):
            total.add(padded, "bank")
    assert total.values.tolist() == [0, 0, 0]  # what is refused is not in it


@given(st.integers(0, 30), BITS, st.binary(max_size=130))
@unhurried
def test_uploads_of_chance_are_words_or_refused(count, bits, body):
    total = Total(count, bits)
    taken = unless_refused(lambda: total.add(body, "bank") or total.values, "'bank'")
    if taken is None:
        assert not total.values.any()
    else:
        assert masked_body(taken, bits) == body


def inputs(bits: int, count: int) -> dict[str, np.ndarray]:
    top = 2**bits - 1
    return {
        "zeros": np.zeros(count, dtype=np.int64),
        "the highest": np.full(count, top),
        "a ramp": np.arange(count) % (top + 1),
    }


@pytest.mark.parametrize("bits", [1, 5, 8, 11, 16, 24, 32])
def test_masked_words_are_uniform_and_tell_nothing_of_the_input(bits):
    """Chi-square tests at 1e-4 each; the streams are fixed, so the outcome is."""
    count = 200_000
    counted = []
    for number, values in enumerate(inputs(bits, count).values()):
        words = words_of(values, bits)
        mask(words, [Keystream(key_of(3 * number + bits))], [Keystream(key_of(900 + number))])
        kept = words.astype(np.int64) % 2**bits
        drawn = kept >> max(0, bits - 8), kept % 2 ** min(bits, 8)  # the highest, the lowest bits
        for part in drawn:
            seen = np.bincount(part, minlength=2 ** min(bits, 8))
            assert chisquare(seen).pvalue > 1e-4
        counted.append(np.bincount(drawn[1], minlength=2 ** min(bits, 8)))
        low = values % 2 ** min(bits, 4), kept % 2 ** min(bits, 4)
        together, _, _ = np.histogram2d(*low, bins=2 ** min(bits, 4))
        together = together[together.sum(axis=1) > 0]
        if len(together) > 1:
            assert chi2_contingency(together).pvalue > 1e-4
    assert chi2_contingency(np.array(counted)).pvalue > 1e-4


# All of it together: a slot of Bonawitz et al. (2017), with whoever vanishes


class Member:
    """A party of one slot, as an uplink puts it together from these functions."""

    def __init__(self, names, me, threshold, slot, start=3):
        self.me, self.names, self.threshold, self.slot = me, names, threshold, slot
        self.start = start
        self.secrets = Secrets.insecure(7).begin(names[me], incarnation=start)
        self.name = names[me]
        self.identity = Identity(self.secrets.identity)
        self.static = AgreementKey(self.secrets.key("agreement", size=32))
        self.mask_secret = self.secrets.key("mask key", slot, size=32)
        self.seed = self.secrets.key("own mask", slot)
        self.mask_key = AgreementKey(self.mask_secret)
        self.shares, self.mask_keys = {me: None}, {me: self.mask_key.public}

    def session(self, name):
        return context("session", "run", name, self.start)

    def announce(self):
        return announce(self.identity, self.static.public, self.session(self.name))

    def meet(self, announcements, pinned):
        self.statics = {
            other: announced(body, pinned[other], self.session(name), name)
            for other, (body, name) in enumerate(zip(announcements, self.names, strict=True))
        }

    def seal(self, sender, receiver):
        other = self.names[sender + receiver - self.me]
        use = context("seal", self.names[sender], self.names[receiver])
        key = self.statics[sender + receiver - self.me]
        return Seal(self.static.shared(key, use, other, SEAL_KEY_BYTES))

    def use(self, sender, receiver):
        return context("shares", self.slot, sender, receiver)

    def deal(self):
        noise = self.secrets.keystream("shares", self.slot)
        count = len(self.names)
        shares = share(self.mask_secret + self.seed, count, self.threshold, noise)
        self.shares[self.me] = shares[self.me]
        return {
            other: self.seal(self.me, other).seal(
                self.mask_key.public + shares[other], self.use(self.me, other)
            )
            for other in range(count)
            if other != self.me
        }

    def take(self, sender, body):
        what = f"the shares of {self.names[sender]!r}"
        plain = self.seal(sender, self.me).opened(body, self.use(sender, self.me), 32 + 48, what)
        self.mask_keys[sender], self.shares[sender] = plain[:32], plain[32:]

    def upload(self, numbers, bits):
        words, (added, subtracted) = (
            words_of(numbers, bits),
            pair_masks(self.mask_key, self.me, self.mask_keys, self.names, self.slot),
        )
        mask(words, [Keystream(self.seed), *added], subtracted)
        return masked_body(words, bits)


def pair_masks(key, me, public, names, slot):
    made = {
        other: Keystream(key.shared(theirs, context("pair", slot), names[other]))
        for other, theirs in public.items()
        if other != me
    }
    above = [stream for other, stream in made.items() if other > me]
    return above, [stream for other, stream in made.items() if other < me]


@pytest.mark.parametrize(("parties", "threshold"), [(3, 2), (4, 3), (5, 3)])
def test_a_sum_survives_whoever_vanishes_after_shares(parties, threshold):
    names, bits, count = [f"party {i}" for i in range(parties)], 11, 33
    numbers = np.random.default_rng(0).integers(0, 300, (parties, count))
    members = met(parties, threshold)
    for sender, member in enumerate(members):
        for receiver, body in member.deal().items():
            members[receiver].take(sender, body)
    bodies = [member.upload(mine, bits) for member, mine in zip(members, numbers, strict=True)]
    for here in product([False, True], repeat=parties):
        present = [i for i in range(parties) if here[i]]
        if len(present) < threshold:
            continue
        total = Total(count, bits)
        for i in present:
            total.add(bodies[i], names[i])
        for owner in range(parties):
            some = {i + 1: members[i].shares[owner] for i in present[:threshold]}
            if here[owner]:
                seeds = {x: body[32:] for x, body in some.items()}
                seed = recover(seeds, threshold, 16, f"the mask of {names[owner]!r}")
                total.unmask(added=[Keystream(seed)])
            else:
                keys = {x: body[:32] for x, body in some.items()}
                secret = recover(keys, threshold, 32, f"the mask key of {names[owner]!r}")
                public = members[present[0]].mask_keys
                lost = AgreementKey.recovered(secret, public[owner], names[owner])
                seen = {i: public[i] for i in present}
                added, subtracted = pair_masks(lost, owner, seen, names, 5)
                # What is left of a pair is the other one's, of the other sign
                total.unmask(added=subtracted, subtracted=added)
        assert (total.values == numbers[present].sum(axis=0)).all()


def met(parties: int, threshold: int = 3, start: int = 3) -> list[Member]:
    names = [f"party {i}" for i in range(parties)]
    members = [Member(names, me, threshold, 5, start) for me in range(parties)]
    hellos = [member.announce() for member in members]
    for member in members:
        member.meet(hellos, [other.identity.public for other in members])
    return members


def test_the_same_root_and_start_give_the_same_bytes_and_another_start_others():
    def told(start):
        members = met(4, start=start)
        dealt = [member.deal() for member in members]
        for sender, bodies in enumerate(dealt):
            for receiver, body in bodies.items():
                members[receiver].take(sender, body)
        zeros = np.zeros(64, dtype=np.int64)
        uploads = [member.upload(zeros, 16) for member in members]
        hellos = [member.announce() for member in members]
        return hellos + uploads + [body for bodies in dealt for body in bodies.values()]

    first = told(start=3)
    assert told(start=3) == first
    assert not set(told(start=4)) & set(first)


def test_all_uploads_but_one_are_uniform_even_without_own_masks():
    """So an honest party's numbers are safe while one that it shares with is missing; at 1e-4."""
    members, bits, count = met(4), 8, 50_000
    for sender, member in enumerate(members):
        for receiver, body in member.deal().items():
            members[receiver].take(sender, body)
    bodies = [member.upload(np.full(count, 7), bits) for member in members]
    for some in [(0,), (3,), (0, 1), (1, 3), (0, 1, 2), (0, 2, 3), (1, 2, 3)]:
        total = Total(count, bits)
        for i in some:
            total.add(bodies[i], members[i].name)
            total.unmask(added=[Keystream(members[i].seed)])
        assert chisquare(np.bincount(total.values, minlength=256)).pvalue > 1e-4
    everybody = Total(count, bits)
    for member, body in zip(members, bodies, strict=True):
        everybody.add(body, member.name)
    everybody.unmask(added=[Keystream(member.seed) for member in members])
    assert (everybody.values == 28).all()
