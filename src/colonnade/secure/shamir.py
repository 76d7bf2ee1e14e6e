"""Shares of secrets, of which so many together tell all, and fewer nothing (Shamir, 1979).

Each byte of a secret is the value at 0 of a random polynomial over GF(2^8), of a degree one less
than the threshold; holder x = 1, 2, ... has its value at x. In this field every string of bytes is
a secret as it is, of whatever length, without the rejections and carries of a prime field, and a
share is as long as the secret; it has room for 255 holders. Bytes are shared one by one, so many
secrets of one owner, one after another, are shared and recovered as one.

Shares are not authenticated: a holder that lies is found out where there is one share more than the
threshold, and by what the secret must fit (``AgreementKey.recovered``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from cryptography.hazmat.primitives.constant_time import bytes_eq
from numpy.typing import NDArray

from colonnade.errors import LocalProtocolError, RemoteProtocolError
from colonnade.kernels.gf256 import inverse, product, products
from colonnade.secure.keystream import Keystream

__all__ = ["MOST_HOLDERS", "recover", "share"]

MOST_HOLDERS = 255


def share(secret: bytes, holders: int, threshold: int, noise: Keystream) -> list[bytes]:
    """Return a share for each holder, the first for x = 1.

    Parameters
    ----------
    secret
        What is shared.
    holders
        Among how many, at most 255.
    threshold
        How many of them can recover it, at least two.
    noise
        ``(threshold - 1) * len(secret)`` bytes of it are used.

    Examples
    --------
    >>> shares = share(b"secret", holders=4, threshold=3, noise=Keystream(bytes(16)))
    >>> recover({1: shares[0], 2: shares[1], 4: shares[3]}, 3, 6, "what 'bank' shared")
    b'secret'
    """
    _check_threshold(holders, threshold)
    if not secret:
        raise LocalProtocolError("there is no secret to share")
    coefficients = np.empty((threshold, len(secret)), dtype=np.uint8)
    coefficients[0] = np.frombuffer(secret, dtype=np.uint8)
    noise.fill(coefficients[1:])
    return [row.tobytes() for row in products(_powers(holders, threshold), coefficients)]


def recover(
    shares: Mapping[int, bytes], threshold: int, size: int, what: str, names: Sequence[str] = ()
) -> bytes:
    """Return the secret that ``threshold`` shares or more tell.

    Parameters
    ----------
    shares
        Of each holder, by its x from 1 on.
    threshold
        That was shared with.
    size
        Bytes of the secret.
    what
        What is recovered, and whose, for errors: "the mask keys of 'bank'".
    names
        What the holders of x = 1, 2, ... are called, for errors.

    Raises
    ------
    RemoteProtocolError
        If there are too few, one has another length, or one more than the threshold does not agree
        with the others.
    """
    _check_threshold(MOST_HOLDERS, threshold)
    for x, one in shares.items():
        if not 1 <= x <= MOST_HOLDERS:
            raise RemoteProtocolError(f"a share of {what} is of holder {x}, who cannot be")
        if len(one) != size:
            raise RemoteProtocolError(
                f"the share of {what} that {_listed([x], names)} has is "
                f"of {len(one)} bytes, expected {size}"
            )
    if len(shares) < threshold:
        raise RemoteProtocolError(
            f"{len(shares)} shares of {what} came, and {threshold} are needed"
        )
    there = tuple(sorted(shares))
    used, more = there[:threshold], there[threshold:]
    rows = np.array([np.frombuffer(shares[x], dtype=np.uint8) for x in used])
    told = products(_weights(used, (0, *more)), rows)
    wrong = [
        x for x, row in zip(more, told[1:], strict=True) if not bytes_eq(row.tobytes(), shares[x])
    ]
    if wrong:
        raise RemoteProtocolError(
            f"the shares of {what} do not agree: those of {_listed(wrong, names)} are not on the "
            f"polynomial of {_listed(used, names)}"
        )
    secret: bytes = told[0].tobytes()
    return secret


def _check_threshold(holders: int, threshold: int) -> None:
    if not 2 <= threshold <= holders <= MOST_HOLDERS:
        raise LocalProtocolError(
            f"a secret cannot be shared among {holders} so that {threshold} are needed: "
            f"from 2 to all of at most {MOST_HOLDERS}"
        )


@lru_cache(maxsize=8)
def _powers(holders: int, count: int) -> NDArray[np.uint8]:
    """Return the powers of every holder's x from 0 on."""
    powers = np.ones((holders, count), dtype=np.uint8)
    for x in range(1, holders + 1):
        for k in range(1, count):
            powers[x - 1, k] = product(int(powers[x - 1, k - 1]), x)
    return powers


@lru_cache(maxsize=64)
def _weights(known: tuple[int, ...], asked: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return by which weights values at ``known`` add up to those at ``asked`` (Lagrange)."""
    weights = np.empty((len(asked), len(known)), dtype=np.uint8)
    for j, x in enumerate(known):
        below = 1
        for other in known:
            below = product(below, x ^ other) if other != x else below
        below = inverse(below)
        for i, at in enumerate(asked):
            above = below
            for other in known:
                above = product(above, at ^ other) if other != x else above
            weights[i, j] = above
    return weights


def _listed(numbers: Sequence[int], names: Sequence[str]) -> str:
    return ", ".join(repr(names[x - 1]) if x <= len(names) else f"holder {x}" for x in numbers)
