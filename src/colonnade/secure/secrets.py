"""An organisation's secrets: everything that it draws in private comes from one root.

A root secret is 32 bytes from the operating system's random source. Keys, masks and noise are
derived from it by HKDF (RFC 5869), each with whose it is and what it is *for*: purpose, round,
part, and the *incarnation*, a number that grows at every start and resume (see ``journals``). So a
run that goes back to a checkpoint and repeats rounds draws anew. A *salt* from the system's source,
drawn anew at each of these, keeps apart two runs that were given the same root. So no mask or noise
is ever used twice, and no run repeats to the bit.

In a run that is *declared a simulation* the roots of all come from its seed, and there is no salt:
it repeats to the bit, and protects nothing from who knows the seed. Its summary says so, and no
other run takes such secrets (``Layout.secrets_for``).
"""

from __future__ import annotations

import secrets
import struct
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from colonnade.errors import LocalProtocolError
from colonnade.secure.keystream import KEY_BYTES, Keystream

__all__ = ["ROOT_BYTES", "Secrets", "Source"]

ROOT_BYTES = 32
SALT_BYTES = 16


@dataclass(frozen=True)
class Secrets:
    """The root of all that one organisation draws in private.

    Nothing is drawn from it but by ``begin``, and what is drawn is bound to the organisation's
    name. So two that were given one root draw apart and have identities of their own, but each
    could put itself in the other's place.

    Parameters
    ----------
    root
        32 bytes that nobody else knows; ``Secrets.system()`` draws them.
    simulated
        Whether it is made of a seed (``Secrets.insecure``), for a run that is declared a simulation
        alone: the root is then no secret.

    Raises
    ------
    LocalProtocolError
        If a root has another length.

    Examples
    --------
    >>> secrets = Secrets.system()
    >>> first, resumed = (secrets.begin("bank", incarnation) for incarnation in (0, 1))
    >>> first.key("mask", round=3) == resumed.key("mask", round=3)
    False
    """

    root: bytes = field(repr=False)
    simulated: bool = False

    def __post_init__(self) -> None:
        if len(self.root) != ROOT_BYTES and not self.simulated:
            raise LocalProtocolError(f"a root secret has {ROOT_BYTES} bytes, not {len(self.root)}")

    @classmethod
    def system(cls) -> Secrets:
        """Return secrets from the operating system's random source."""
        return cls(secrets.token_bytes(ROOT_BYTES))

    @classmethod
    def insecure(cls, seed: int) -> Secrets:
        """Return what everybody can draw who knows a seed, for a declared simulation."""
        return cls(struct.pack("<q", seed), simulated=True)

    def begin(self, name: str, incarnation: int) -> Source:
        """Return what an organisation draws from under an incarnation.

        Parameters
        ----------
        name
            Whose secrets these are.
        incarnation
            A number that was never given before; two runs may have the same one.
        """
        salt = b"" if self.simulated else secrets.token_bytes(SALT_BYTES)
        return Source(name, incarnation, self.simulated, self._of(name), salt)

    def identity(self, name: str) -> bytes:
        """Return what an organisation's ``Identity`` is made of: the same at every start."""
        return _identity(self._of(name))

    def _of(self, name: str) -> bytes:
        what = "simulation" if self.simulated else "organisation"
        return _derived(self.root, f"{what}/{name}".encode(), ROOT_BYTES)


@dataclass(frozen=True, eq=False)
class Source:
    """What an organisation draws from since one of its starts; ``Secrets.begin`` returns it.

    It does not change: who begins again has another one, and who holds this one draws on as before.

    Parameters
    ----------
    name
        Whose it is.
    incarnation
        The number of the start.
    simulated
        Whether the run is declared a simulation: then noise is the same under every incarnation, so
        that a run that was stopped goes on as if it had not been.
    root, salt
        The organisation's own root, and what was drawn for this start.

    Examples
    --------
    >>> source = Secrets.insecure(7).begin("bank", incarnation=0)
    >>> source.keystream("mask", round=3).bytes(4).hex()
    'd8f647f2'
    """

    name: str
    incarnation: int
    simulated: bool
    root: bytes = field(repr=False)
    salt: bytes = field(repr=False)

    @property
    def identity(self) -> bytes:
        """What the organisation's ``Identity`` is made of."""
        return _identity(self.root)

    def key(self, purpose: str, round: int = 0, part: int = 0, size: int = KEY_BYTES) -> bytes:
        """Return the key for one thing."""
        when = struct.pack("<qqq", self.incarnation, round, part)
        return _derived(self.root, b"once/" + self.salt + when + purpose.encode(), size)

    def keystream(self, purpose: str, round: int = 0, part: int = 0) -> Keystream:
        """Return a source of random bytes for one thing."""
        return Keystream(self.key(purpose, round, part))

    def noise(self, purpose: str, round: int, part: int = 0) -> Keystream:
        """Return a source of noise for what is sent at one moment, ever."""
        if self.simulated:
            when = struct.pack("<qq", round, part)
            return Keystream(_derived(self.root, b"noise/" + when + purpose.encode(), KEY_BYTES))
        return self.keystream(f"noise/{purpose}", round, part)


def _identity(root: bytes) -> bytes:
    return _derived(root, b"lasting/identity", ROOT_BYTES)


def _derived(secret: bytes, what: bytes, size: int) -> bytes:
    return HKDF(SHA256(), size, salt=None, info=b"colonnade " + what).derive(secret)
