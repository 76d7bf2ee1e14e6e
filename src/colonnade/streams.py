"""Counter-based randomness: any draw is a pure function of its key and its position.

A pseudo-random generator with hidden state cannot be resumed, replayed or shared by two
organisations without sending it. Here every random number is ``philox(key, counter)`` (Salmon et
al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), and the key is a hash of what the
draw is *for*: (seed, origin, purpose, round, part). Two ends that know the configuration
therefore agree on dither or batch order without a byte between them, and a resumed run continues
with the very numbers that an uninterrupted one would have drawn.

The run's shared seed is public among the parties. It never feeds a secret: no key, mask or
privacy noise.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from functools import lru_cache

from colonnade.annotated import is_whole

__all__ = ["StreamKey", "is_seed", "work_seed"]


def is_seed(value: object) -> bool:
    """Return whether streams can have this seed: a whole number of 64 bits, with a sign.

    >>> is_seed(-(2**63)), is_seed(2**63), is_seed(1.0)
    (True, False, False)
    """
    return is_whole(value) and -(2**63) <= value < 2**63


@dataclass(frozen=True, slots=True)
class StreamKey:
    """Names one stream of random numbers.

    Parameters
    ----------
    seed
        The run's seed, a signed 64-bit integer.
    origin
        The organisation whose draw this is; for a message, the one that encoded it.
    purpose
        What the numbers are for, e.g. ``"training/embedding"``.
    round
        The round of the protocol.
    part
        Tells several draws of one round apart: a local step, or a piece of a long message.

    Examples
    --------
    >>> a = StreamKey(seed=7, origin="bank", purpose="training/embedding", round=3)
    >>> a.words() == StreamKey(7, "bank", "training/embedding", 3).words()
    True
    >>> a.words() == StreamKey(7, "shop", "training/embedding", 3).words()
    False
    """

    seed: int
    origin: str
    purpose: str
    round: int
    part: int = 0

    def words(self) -> tuple[int, int]:
        """Return 128 bits: the Philox key, and the upper half of its counter."""
        digest = hashlib.blake2b(
            struct.pack("<qqq", self.seed, self.round, self.part)
            + self.origin.encode()
            + b"\0"
            + self.purpose.encode(),
            digest_size=16,
            person=b"colonnade stream",
        ).digest()
        key, counter = struct.unpack("<QQ", digest)
        return key, counter

    def torch_seed(self) -> int:
        """Return a seed for torch's own generators, which stay outside our streams."""
        return self.words()[0] >> 1


@lru_cache(maxsize=1024)
def _base(seed: int, role: str, purpose: str) -> int:
    return StreamKey(seed, role, purpose, 0).torch_seed()


def work_seed(seed: int, role: str, purpose: str, round: int, step: int) -> int:
    """Return the seed of torch's generators for one piece of a role's work.

    A hash of (seed, role, purpose) plus odd multiples of round and step, modulo 2^63: cheap
    enough to compute before every piece of work.

    >>> work_seed(1, "bank", "training", 0, 0) == StreamKey(1, "bank", "training", 0).torch_seed()
    True
    """
    return (
        _base(seed, role, purpose) + round * 0x9E3779B97F4A7C15 + step * 0x3F58476D1CE4E5B9
    ) % 2**63
