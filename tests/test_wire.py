"""The envelope: frozen bytes, and a reader that accepts nothing else."""

from __future__ import annotations

import tracemalloc

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from colonnade.errors import RemoteProtocolError
from colonnade.wire import MAX_BODY_BYTES, VERSION, Message, Purpose, decode_frame, encode_header

# No law here is about how fast a machine is.
unhurried = settings(suppress_health_check=[HealthCheck.too_slow])

KINDS = st.from_regex(r"[a-z][a-z0-9_]{0,31}", fullmatch=True)
COUNTS = st.integers(0, 2**53 - 1)


def framed(header: bytes, body: bytes = b"") -> bytes:
    return len(header).to_bytes(2, "little") + header + body


def packed(*fields: object) -> bytes:
    return msgspec.msgpack.encode(fields)


def read(frame: bytes, **options: int) -> Message:
    return decode_frame(frame, "bank", "shop", **options)


@unhurried
@given(KINDS, st.sampled_from(Purpose), COUNTS, COUNTS, st.binary(max_size=100))
def test_what_is_written_is_read(kind, purpose, round, sequence, body):
    message = read(encode_header(kind, purpose, round, sequence) + body)
    assert message == Message("bank", "shop", kind, purpose, round, sequence, body)
    assert type(message.purpose) is Purpose


# Frozen: an organisation may run an older release of the same version.
# 0f 00           15 bytes of header follow, little endian
# 95              msgpack: array of 5
# 01              version 1
# a9 65...67      string of 9 bytes, "embedding"
# 00              purpose 0
# 03, 0c          round 3, sequence 12; numbers up to 127 are one byte
FROZEN = {
    ("embedding", Purpose.TRAINING, 3, 12): "0f00 95 01 a9656d62656464696e67 00 03 0c",
    # cc: 8 bits follow; cd: 16 bits, big endian
    ("derivative", Purpose.EVALUATION, 128, 256): (
        "1300 95 01 aa64657269766174697665 01 cc80 cd0100"
    ),
    # ce: 32 bits follow; cf: 64 bits
    ("x", Purpose.SETUP, 2**16, 2**32): "1300 95 01 a178 02 ce00010000 cf0000000100000000",
    # d9 20: a string of 32 bytes, one more than fits the short form; both counts the largest
    ("k" + "_0" * 15 + "z", Purpose.PREDICTION, 2**53 - 1, 2**53 - 1): (
        "3700 95 01 d920 6b" + "5f30" * 15 + "7a 03 cf001fffffffffffff cf001fffffffffffff"
    ),
    ("q", Purpose.RELAY, 0, 127): "0700 95 01 a171 04 00 7f",
}


@pytest.mark.parametrize(("fields", "expected"), list(FROZEN.items()))
def test_frozen_bytes(fields, expected):
    header = bytes.fromhex(expected)
    assert encode_header(*fields).hex() == header.hex()
    message = read(header + b"body")
    assert (message.kind, message.purpose, message.round, message.sequence) == fields
    assert message.body == b"body"


def test_the_numbers_of_purposes_are_frozen():
    assert {purpose.name: int(purpose) for purpose in Purpose} == {
        "TRAINING": 0,
        "EVALUATION": 1,
        "SETUP": 2,
        "PREDICTION": 3,
        "RELAY": 4,
    }


@pytest.mark.parametrize(
    "fields",
    [
        (VERSION + 1, "embedding", 0, 3, 12),
        (0, "embedding", 0, 3, 12),
        (-1, "embedding", 0, 3, 12),
        (2**64 - 1, "embedding", 0, 3, 12),
    ],
)
def test_another_version_is_named(fields):
    with pytest.raises(RemoteProtocolError, match=f"version {fields[0]} .*, this is {VERSION}"):
        read(framed(packed(*fields)))


BAD_FIELDS = {
    "no field": (),
    "missing field": (VERSION, "embedding", 0, 3),
    "extra field": (VERSION, "embedding", 0, 3, 12, 0, 0),
    "part negative": (VERSION, "embedding", 0, 3, 12, -1),
    "extra field, none": (VERSION, "embedding", 0, 3, 12, None),
    "version a float": (1.0, "embedding", 0, 3, 12),
    "version a bool": (True, "embedding", 0, 3, 12),
    "kind bytes": (VERSION, b"embedding", 0, 3, 12),
    "kind none": (VERSION, None, 0, 3, 12),
    "kind empty": (VERSION, "", 0, 3, 12),
    "kind in capitals": (VERSION, "Embedding", 0, 3, 12),
    "kind begins with a digit": (VERSION, "2nd", 0, 3, 12),
    "kind begins with an underscore": (VERSION, "_x", 0, 3, 12),
    "kind with a slash": (VERSION, "a/b", 0, 3, 12),
    "kind with a zero": (VERSION, "a\0", 0, 3, 12),
    "kind with a line break at its end": (VERSION, "embedding\n", 0, 3, 12),
    "kind on two lines": (VERSION, "a\nb", 0, 3, 12),
    "kind with another alphabet's digit": (VERSION, "a\u0663", 0, 3, 12),
    "kind too long": (VERSION, "a" * 33, 0, 3, 12),
    "purpose unknown": (VERSION, "embedding", 5, 3, 12),
    "purpose negative": (VERSION, "embedding", -1, 3, 12),
    "purpose a word": (VERSION, "embedding", "training", 3, 12),
    "purpose a float": (VERSION, "embedding", 0.0, 3, 12),
    "round negative": (VERSION, "embedding", 0, -1, 12),
    "round huge": (VERSION, "embedding", 0, 2**53, 12),
    "round of 64 bits": (VERSION, "embedding", 0, 2**64 - 1, 12),
    "round a float": (VERSION, "embedding", 0, 3.0, 12),
    "round a bool": (VERSION, "embedding", 0, True, 12),
    "round a word": (VERSION, "embedding", 0, "3", 12),
    "round none": (VERSION, "embedding", 0, None, 12),
    "sequence negative": (VERSION, "embedding", 0, 3, -1),
    "sequence huge": (VERSION, "embedding", 0, 3, 2**53),
    "sequence a list": (VERSION, "embedding", 0, 3, [12]),
}


@pytest.mark.parametrize("fields", list(BAD_FIELDS.values()), ids=list(BAD_FIELDS))
def test_headers_are_read_strictly(fields):
    with pytest.raises(RemoteProtocolError, match=r"'bank' has a bad header: .+"):
        read(framed(packed(*fields)))


@pytest.mark.parametrize(
    "header",
    [
        msgspec.msgpack.encode(
            {"version": 1, "kind": "x", "purpose": 0, "round": 0, "sequence": 0}
        ),
        msgspec.msgpack.encode("embedding"),
        packed(VERSION, "embedding", 0, 3, 12) + b"\0",  # something follows the array
        b"\x95\x01\xa1\xff\x00\x00\x00",  # the kind is not UTF-8
        b"\x95\x01\xa1x\x00\x00\xc1",  # a byte that msgpack never uses
        b"\x95\x01\xa1x\x00\x00\xd6\xff\x00\x00\x00\x00",  # a timestamp for a sequence
        b"\x91" * 96,  # arrays in arrays
        b"",
    ],
    ids=repr,
)
def test_what_is_no_header_is_refused(header):
    with pytest.raises(RemoteProtocolError, match="'bank' has a bad header"):
        read(framed(header, b"body"))


@pytest.mark.parametrize("fields", list(FROZEN))
def test_a_frame_cut_anywhere_in_its_header_is_refused(fields):
    header = encode_header(*fields)
    for length in range(len(header)):
        with pytest.raises(RemoteProtocolError, match=f"a frame of {length} bytes"):
            read(header[:length])
    # Nor can a shorter length, which would make a body of the rest, hide that it was cut.
    for length in range(len(header) - 2):
        with pytest.raises(RemoteProtocolError, match="bad header"):
            read(length.to_bytes(2, "little") + header[2:])


def test_a_body_may_have_the_agreed_size_and_no_byte_more():
    header = encode_header("x", Purpose.TRAINING, 0, 0)
    assert read(header + bytes(1000), max_body_bytes=1000).body == bytes(1000)
    with pytest.raises(RemoteProtocolError, match="a body of 1001 bytes, at most 1000"):
        read(header + bytes(1001), max_body_bytes=1000)
    with pytest.raises(RemoteProtocolError, match="a body of 1 bytes, at most 0"):
        read(header + b"1", max_body_bytes=0)
    assert MAX_BODY_BYTES == 2**30


@pytest.mark.parametrize(
    "claim",
    [
        b"\xdd\xff\xff\xff\xff",  # an array of 2^32 - 1
        b"\xdf\xff\xff\xff\xff",  # a map
        b"\xdb\xff\xff\xff\xff",  # a string
        b"\xc6\xff\xff\xff\xff",  # bytes
        b"\xc9\xff\xff\xff\xff\x05",  # an extension
    ],
    ids=bytes.hex,
)
def test_lengths_that_bytes_claim_are_not_allocated(claim):
    fields = [msgspec.msgpack.encode(field) for field in (VERSION, "x", 0, 3, 12)]
    places = [b"\x95" + b"".join(fields[:i]) + claim + b"".join(fields[i + 1 :]) for i in range(5)]
    frames = [framed(header) for header in (claim, *places)]
    frames.append(b"\xff\xff" + claim)  # a header of 65535 bytes
    for frame in frames:
        tracemalloc.start()
        try:
            with pytest.raises(RemoteProtocolError):
                read(frame)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 2**20


def read_or_refused(frame: bytes) -> None:
    try:
        message = read(frame)
    except RemoteProtocolError:
        return
    header = encode_header(message.kind, message.purpose, message.round, message.sequence)
    assert read(header + message.body) == message
    assert frame.endswith(message.body)
    assert len(header) <= len(frame) - len(message.body)  # ours is the shortest form


@unhurried
@given(st.binary(max_size=200))
@example(b"")
@example(b"\0")
@example(b"\0\0")
def test_any_bytes_are_read_or_refused(frame):
    read_or_refused(frame)


WILD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
FIELDS = [st.just(VERSION), KINDS, st.sampled_from(range(5)), COUNTS, COUNTS]


@unhurried
@given(st.tuples(*(field | WILD for field in FIELDS)), st.binary(max_size=9))
def test_any_msgpack_is_read_or_refused(fields, body):
    read_or_refused(framed(packed(*fields), body))


@unhurried
@given(st.data(), KINDS, st.sampled_from(Purpose), COUNTS, COUNTS)
def test_headers_with_a_changed_byte_are_read_or_refused(data, kind, purpose, round, sequence):
    frame = bytearray(encode_header(kind, purpose, round, sequence) + b"body")
    frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    read_or_refused(bytes(frame))
