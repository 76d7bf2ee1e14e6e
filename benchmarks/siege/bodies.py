"""Hostile bodies for every codec and every reader of foreign bytes.

What comes out is finite numbers of the shape that was asked for, or ``RemoteProtocolError`` (for a
saved state ``CheckpointError``); nothing else, and not much memory.
"""

from __future__ import annotations

import random
import resource
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product

import numpy as np
import torch

from colonnade.checkpoints import decode_state, encode_state
from colonnade.codecs import (
    QSGD,
    Codec,
    Entropy,
    Float,
    Lattice,
    LloydMax,
    LowRank,
    ProductQuantised,
    Scalar,
    TopK,
)
from colonnade.errors import CheckpointError, ColonnadeError, RemoteProtocolError
from colonnade.secure import (
    CodedHolder,
    CodedParty,
    CodedSums,
    LagrangeCode,
    Quantised,
    Secrets,
)
from colonnade.secure.coded_sums import Instant
from colonnade.streams import StreamKey
from colonnade.wire import Purpose, decode_frame, encode_header
from siege.attack import Attack, Found

__all__ = ["BODIES", "honest_bodies", "read_hostile"]

_KEY = StreamKey(1, "bank", "training/embedding", 3)
_CODECS: tuple[Codec, ...] = (
    Float(32),
    Float(16),
    Float("bf16"),
    Scalar(1),
    Scalar(4),
    Scalar(8),
    QSGD(2),
    QSGD(6),
    TopK(0.2),
    LloydMax(2),
    LloydMax(4),
    LowRank(2),
    Lattice(4),
    ProductQuantised(2, 3),
    Entropy(Scalar(4)),
    Entropy(LloydMax(3)),
)
_SHAPES = ((1, 1), (5, 6), (33, 16))
_MOST = 256 * 2**20  # bytes that memory may grow by, over all of them

Reader = Callable[[bytes], object]


def honest_bodies() -> list[bytes | None]:
    """Return what each codec writes of matrices of each shape; None where it refuses them."""
    draw = torch.Generator().manual_seed(0)
    bodies: list[bytes | None] = []
    for codec, (rows, width) in product(_CODECS, _SHAPES):
        try:
            bodies.append(codec.encode(torch.randn(rows, width, generator=draw), _KEY))
        except ColonnadeError:
            bodies.append(None)
    return bodies


def _codec_readers(bodies: Sequence[bytes | None]) -> Iterator[tuple[str, bytes, Reader]]:
    for (codec, shape), body in zip(product(_CODECS, _SHAPES), bodies, strict=True):
        if body is not None:
            yield f"{codec} of {shape[0]} x {shape[1]}", body, partial(_decoded, codec, shape)


def _decoded(codec: Codec, shape: tuple[int, int], body: bytes) -> None:
    values = codec.decode(body, shape, _KEY)
    assert values.shape == shape, f"the shape is {tuple(values.shape)}"
    assert values.dtype == torch.float32
    assert bool(torch.isfinite(values).all()), "numbers that are not finite"


def _other_readers() -> Iterator[tuple[str, bytes, Reader]]:
    frame = encode_header("embedding", Purpose.TRAINING, 3, 12) + bytes(40)
    yield "a frame", frame, lambda body: decode_frame(body, "bank", "shop", 2**20)
    state = {"round": 3, "moments": [torch.zeros(2, 3)], "names": ("a", b"b"), "x": np.arange(4)}
    yield "a saved state", encode_state(state), decode_state
    names = tuple(f"party_{number}" for number in range(3))
    sums = CodedSums(names, "holder", LagrangeCode(3), Quantised(4, 4), dict.fromkeys(names, 2), 3)
    secrets = Secrets(b"siege".ljust(32))
    ends = {name: CodedParty(sums, name, secrets.begin(name, 0)) for name in names}
    holder, now = CodedHolder(sums, 0), Instant(0, "training", 0)
    keys = holder.meet({name: end.key() for name, end in ends.items()})
    for end in ends.values():
        end.meet(keys)
    whole = np.ones((1, 4, 2), dtype=np.int64)
    shares = {name: end.share_data(whole) for name, end in ends.items()}
    weights = {
        name: end.share_weights(np.ones((2, 3), dtype=np.int64), now) for name, end in ends.items()
    }
    for name, end in ends.items():
        for other in names:
            if other != name:
                end.take_data(other, shares[other][name])
        told = {other: weights[other][name] for other in names if other != name}
        end.take_weights(told, now)
    answers = {name: end.answer([end.computed(np.arange(4))], now) for name, end in ends.items()}
    yield (
        "a coded answer",
        answers["party_1"],
        lambda body: holder.total(answers | {"party_1": body}, 4, now),
    )
    yield "keys", keys, ends["party_0"].meet
    yield (
        "a share of data",
        shares["party_1"]["party_0"],
        lambda body: ends["party_0"].take_data("party_1", body),
    )


def changed(body: bytes, source: random.Random) -> bytes:
    """Return a body that was changed in one of many ways."""
    way = source.randrange(9)
    if way == 0:
        return source.randbytes(len(body))
    if way == 1:
        return body[: source.randrange(len(body) + 1)]
    if way == 2:
        return body + source.randbytes(source.choice((1, 4, 64)))
    if way == 3:
        return source.randbytes(source.randrange(64))
    if way == 4:
        return bytes([source.choice((0, 255))]) * len(body)
    data = bytearray(body)
    if not data:
        return b"\1"
    if way == 5:  # a number that is none, or the largest there is
        at = source.randrange(len(data))
        number = source.choice(("0000c07f", "0000807f", "ffff7f7f", "ffffffff", "ffffff7f"))
        data[at : at + 4] = bytes.fromhex(number)[: len(data) - at]
        return bytes(data)
    if way == 6:  # a part elsewhere
        at, start = source.randrange(len(data)), source.randrange(len(data))
        piece = data[start : start + source.randrange(1, 16)]
        data[at : at + len(piece)] = piece
        return bytes(data[: len(body)])
    for _ in range(1 if way == 7 else source.randrange(1, 9)):
        data[source.randrange(len(data))] ^= 1 << source.randrange(8)
    return bytes(data)


def read_hostile(trials: int, seed: int, bodies: Sequence[bytes | None] | None = None) -> Found:
    """Read so many hostile bodies, made of honest ones: by default what is written here."""
    found, source = Found(), random.Random(seed)
    readers = [
        *_codec_readers(honest_bodies() if bodies is None else bodies),
        *_other_readers(),
    ]
    for _, body, read in readers:
        read(body)  # the honest one, which also compiles what is compiled
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(trials):
        name, body, read = readers[number % len(readers)]
        attempt = changed(body, source)
        try:
            read(attempt)
        except (RemoteProtocolError, CheckpointError) as error:
            found.hold(type(error).__name__)
        except Exception as error:
            shown = attempt.hex() if len(attempt) < 200 else f"{len(attempt)} bytes"
            found.fail(f"{name}: {type(error).__name__}: {str(error)[:120]} from {shown}")
        else:
            found.hold("read as what it might be")
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    if grown > _MOST:
        found.fail(f"memory grew by {grown / 2**20:.0f} MiB")
    return found


BODIES = Attack(
    "hostile bodies",
    "finite numbers of the shape that was asked for, or an error of the wire",
    1_000_000,
    read_hostile,
)
