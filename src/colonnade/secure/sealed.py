"""Seals: what two say to each other through a third, who can neither read nor change it.

AES-256 in SIV mode (RFC 5297) with what the message is *for* as associated data: sender, receiver,
incarnations, which slots. There is no nonce to get wrong: the mode makes it of key, context and
plaintext. A message sealed twice gives the same bytes, as a replay of a run must; two messages
under one key and context, which in GCM or ChaCha20-Poly1305 with a counter that was set back would
give away both and the means to forge, here tell no more than that they differ.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from colonnade.errors import LocalProtocolError, RemoteProtocolError

__all__ = ["SEAL_BYTES", "SEAL_KEY_BYTES", "Seal"]

SEAL_KEY_BYTES = 64  # two keys of AES-256
SEAL_BYTES = 16


class Seal:
    """Seals and opens under a key that two have.

    Parameters
    ----------
    key
        64 bytes; a direction has its own.

    Examples
    --------
    >>> seal = Seal(bytes(64))
    >>> body = seal.seal(b"a share", b"bank to shop, slots 0 to 9")
    >>> len(body), seal.opened(body, b"bank to shop, slots 0 to 9", 7, "the shares of 'bank'")
    (23, b'a share')
    """

    def __init__(self, key: bytes) -> None:
        if len(key) != SEAL_KEY_BYTES:
            raise LocalProtocolError(f"a seal has a key of {SEAL_KEY_BYTES} bytes, not {len(key)}")
        self._cipher = AESSIV(key)

    def seal(self, plain: bytes, context: bytes) -> bytes:
        """Return a message that opens under this key and context only, ``SEAL_BYTES`` longer."""
        if not plain:
            raise LocalProtocolError("there is nothing to seal")
        return self._cipher.encrypt(plain, [context])

    def opened(self, body: bytes, context: bytes, size: int, what: str) -> bytes:
        """Return what was sealed.

        Parameters
        ----------
        body
            What came, from whoever.
        context
            What it must have been sealed for.
        size
            How many bytes were sealed.
        what
            What it should be, and of whom, for the error: "the shares of 'bank'".

        Raises
        ------
        RemoteProtocolError
            If it has another length, or was sealed by somebody else or for something else.
        """
        if len(body) != size + SEAL_BYTES or not size:
            raise RemoteProtocolError(
                f"{what}, sealed, have {len(body)} bytes, expected {size + SEAL_BYTES}"
            )
        try:
            return self._cipher.decrypt(body, [context])
        except InvalidTag:
            raise RemoteProtocolError(
                f"{what} do not open: they were changed on their way, "
                "or sealed by another key or for something else"
            ) from None
