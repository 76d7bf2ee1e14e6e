"""An organisation's secrets: everything that it draws in private comes from one root.

A root secret is 32 bytes from the operating system's random source. Keys, masks and noise are
derived from it by HKDF (RFC 5869), each with what it is *for*: purpose, round, part, and the
*incarnation*, a number that grows at every start and resume (see ``journals``). So a run that goes
back to a checkpoint and repeats rounds draws anew, and no mask or noise is ever used twice; and
yet, where root and incarnation are the same, as when a run is replayed, every bit is.

In a run that is *declared a simulation* the roots of all come from its seed: it repeats to the bit,
and protects nothing from who knows the seed. Its summary says so.
"""

from __future__ import annotations

import secrets
import struct

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from colonnade.errors import LocalProtocolError
from colonnade.secure.keystream import KEY_BYTES, Keystream

__all__ = ["ROOT_BYTES", "Secrets"]

ROOT_BYTES = 32


class Secrets:
    """What one organisation draws from in private.

    Parameters
    ----------
    root
        Its root secret, 32 bytes.
    simulated
        Whether the run is declared a simulation: then noise is the same under every incarnation, so
        that a run that was stopped goes on as if it had not been.

    Examples
    --------
    >>> secrets = Secrets.seeded(7, "bank")
    >>> secrets.begin(incarnation=0)
    >>> first = secrets.key("mask", round=3)
    >>> secrets.begin(incarnation=1)  # it was resumed
    >>> secrets.key("mask", round=3) == first
    False
    """

    def __init__(self, root: bytes, simulated: bool = False) -> None:
        if len(root) != ROOT_BYTES:
            raise LocalProtocolError(f"a root secret has {ROOT_BYTES} bytes, not {len(root)}")
        self._root = self._lasting = root
        self.simulated = simulated
        self._incarnation: int | None = None

    @classmethod
    def system(cls) -> Secrets:
        """Return secrets from the operating system's random source."""
        return cls(secrets.token_bytes(ROOT_BYTES))

    @classmethod
    def seeded(cls, seed: int, name: str) -> Secrets:
        """Return the secrets of ``name`` in a run that is declared a simulation."""
        root = _derived(struct.pack("<q", seed), f"simulation/{name}".encode(), ROOT_BYTES)
        return cls(root, simulated=True)

    def anew(self) -> Secrets:
        """Return secrets with the same identity, and a root that nothing was drawn from yet.

        For what keeps no journal, as a prediction, and so has no incarnation numbers of its own.
        """
        fresh = Secrets.system()
        fresh._lasting = self._lasting
        return fresh

    def begin(self, incarnation: int) -> None:
        """Draw from now on under an incarnation number, which was never given before."""
        self._incarnation = incarnation

    def key(self, purpose: str, round: int = 0, part: int = 0, size: int = KEY_BYTES) -> bytes:
        """Return the key for one thing under this incarnation.

        Raises
        ------
        LocalProtocolError
            If no incarnation was begun.
        """
        if self._incarnation is None:
            raise LocalProtocolError("secrets are drawn only under an incarnation number")
        when = struct.pack("<qqq", self._incarnation, round, part)
        return _derived(self._root, b"once/" + when + purpose.encode(), size)

    def keystream(self, purpose: str, round: int = 0, part: int = 0) -> Keystream:
        """Return a source of random bytes for one thing under this incarnation."""
        return Keystream(self.key(purpose, round, part))

    def noise(self, purpose: str, round: int, part: int = 0) -> Keystream:
        """Return a source of noise for what is sent at one moment, ever."""
        if self.simulated:
            when = struct.pack("<qq", round, part)
            return Keystream(_derived(self._root, b"noise/" + when + purpose.encode(), KEY_BYTES))
        return self.keystream(f"noise/{purpose}", round, part)

    def lasting(self, purpose: str, size: int = ROOT_BYTES) -> bytes:
        """Return what is the same under every incarnation: of an identity, never of a mask."""
        return _derived(self._lasting, b"lasting/" + purpose.encode(), size)


def _derived(secret: bytes, what: bytes, size: int) -> bytes:
    return HKDF(SHA256(), size, salt=None, info=b"colonnade " + what).derive(secret)
