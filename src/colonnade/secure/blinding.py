"""Blinding: ids become points of a curve that nobody without the key can tell from chance.

An id x is hashed to a point H(x) of the curve P-256 and multiplied by a secret whole number k, the
*key*: kH(x). Whoever has a key of its own can blind again what another has blinded, and in whatever
order several have done so the point is the same: k(lH(x)) = l(kH(x)). So two points under the same
keys are equal just where the ids are, and under other keys they tell nothing (decisional
Diffie-Hellman, with the hash as a random oracle). The idea is that of Meadows (1986) and of
Huberman, Franklin and Hogg (1999).

Points that pass through several hands before they are compared are *veiled* besides, by a number
that is used for nothing else and taken away in the end: so nobody on the way, nor all of them
together, can bring other ids under the same.

The arithmetic is openmined-psi's, of which this module takes two operations: to blind ids, and to
blind points again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from colonnade.errors import ConfigurationError, RemoteProtocolError
from colonnade.secure.secrets import Source

__all__ = ["POINT_BYTES", "Blinding", "CurveBlinding"]

POINT_BYTES = 33
"""Of a blinded id: one byte for the sign of a coordinate, and the other coordinate."""

_KEY_BYTES = 32
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


class Blinding(Protocol):
    """What one organisation hides ids with, in one alignment."""

    def blind(self, ids: Sequence[str]) -> bytes:
        """Return the points of ids, ``POINT_BYTES`` each, in their order."""
        ...

    def veiled(self, ids: Sequence[str]) -> bytes:
        """Return the points of ids under this key and a veil."""
        ...

    def unveiled(self, points: bytes) -> bytes:
        """Return points without the veil that ``veiled`` has put on them.

        Raises
        ------
        RemoteProtocolError
            If they are no points.
        """
        ...

    def again(self, points: bytes) -> bytes:
        """Return points that another has blinded, blinded with this key too, in their order.

        Raises
        ------
        RemoteProtocolError
            If they are no points.
        """
        ...


class CurveBlinding:
    """Blinding by a key of the curve P-256, that is drawn once and used in one alignment.

    Parameters
    ----------
    source
        What the key is drawn from.

    Raises
    ------
    ConfigurationError
        If openmined-psi is not installed, or not for this system.

    Examples
    --------
    >>> from colonnade.secure import Secrets
    >>> bank, shop = (
    ...     CurveBlinding(Secrets.insecure(1).begin(name, 0)) for name in ("bank", "shop")
    ... )
    >>> bank.again(shop.blind(["ann"])) == shop.again(bank.blind(["ann"]))
    True
    >>> bank.unveiled(shop.again(bank.veiled(["ann"]))) == shop.again(bank.blind(["ann"]))
    True
    >>> len(bank.blind(["ann", "bob"])) == 2 * POINT_BYTES
    True
    """

    def __init__(self, source: Source) -> None:
        try:
            from private_set_intersection import python as psi
        except ImportError as error:
            raise ConfigurationError(
                "to align without showing ids needs openmined-psi (on Linux with glibc 2.35 or "
                f"newer); pip install 'colonnade[align]' ({error})"
            ) from error
        key, veil = _number(source, "key of ids"), _number(source, "veil of ids")
        self._psi = psi
        self._key = psi.client.CreateFromKey(_bytes(key), True)
        self._veiled_key = psi.client.CreateFromKey(_bytes(key * veil % _ORDER), True)
        self._again = psi.server.CreateFromKey(_bytes(key), True)
        self._unveil = psi.server.CreateFromKey(_bytes(pow(veil, -1, _ORDER)), True)

    def blind(self, ids: Sequence[str]) -> bytes:
        """Return the points of ids, in their order."""
        return b"".join(self._key.CreateRequest(list(ids)).encrypted_elements)

    def veiled(self, ids: Sequence[str]) -> bytes:
        """Return the points of ids under this key and a veil."""
        return b"".join(self._veiled_key.CreateRequest(list(ids)).encrypted_elements)

    def again(self, points: bytes) -> bytes:
        """Return points that another has blinded, blinded with this key too, in their order.

        Raises
        ------
        RemoteProtocolError
            If they are no points.
        """
        return self._multiplied(points, self._again)

    def unveiled(self, points: bytes) -> bytes:
        """Return points without the veil that ``veiled`` has put on them.

        Raises
        ------
        RemoteProtocolError
            If they are no points.
        """
        return self._multiplied(points, self._unveil)

    def _multiplied(self, points: bytes, by: Any) -> bytes:
        if len(points) % POINT_BYTES:
            raise RemoteProtocolError(f"{len(points)} bytes are no points of {POINT_BYTES} each")
        each = [points[at : at + POINT_BYTES] for at in range(0, len(points), POINT_BYTES)]
        # What is revealed is in the order of what was asked; else the library would sort it.
        request = self._psi.Request(reveal_intersection=True, encrypted_elements=each)
        try:
            made = by.ProcessRequest(request).encrypted_elements
        except RuntimeError:
            raise RemoteProtocolError("a blinded id is no point of the curve P-256") from None
        return b"".join(made)


def _number(source: Source, what: str) -> int:
    """Draw a number from 1 to below the curve's order; one draw in 2^32 lies beyond."""
    part = 0
    while True:
        drawn = int.from_bytes(source.key(what, part=part, size=_KEY_BYTES), "big")
        if 0 < drawn < _ORDER:
            return drawn
        part += 1


def _bytes(number: int) -> bytes:
    return number.to_bytes(_KEY_BYTES, "big")
