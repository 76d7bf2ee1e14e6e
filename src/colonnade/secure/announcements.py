"""Announcements: the agreement key of one start, signed by the identity of its owner.

So who relays announcements can withhold them, and cannot put a key of its own in their place, nor
one of another organisation: that is in the signed context. An old one of the same organisation it
can pass on where the context does not tell runs and starts apart; then who no longer has the secret
half of it understands nothing, and training ends.
"""

from __future__ import annotations

from colonnade.errors import RemoteProtocolError
from colonnade.secure.agreement_keys import AGREEMENT_BYTES
from colonnade.secure.contexts import context
from colonnade.secure.identities import SIGNATURE_BYTES, Identity, verify

__all__ = ["ANNOUNCEMENT_BYTES", "announce", "announced"]

ANNOUNCEMENT_BYTES = AGREEMENT_BYTES + SIGNATURE_BYTES


def announce(identity: Identity, public: bytes, session: bytes) -> bytes:
    """Return a public agreement key with its owner's signature.

    Parameters
    ----------
    identity
        Of the owner.
    public
        The public half of an ``AgreementKey`` that was made for this start.
    session
        A ``context`` that says whose it is, in which run, and under which incarnation.

    Examples
    --------
    >>> bank = Identity(bytes(32))
    >>> session = context("session", "the run's digest", "bank", 0)
    >>> body = announce(bank, bytes([9] * 32), session)
    >>> announced(body, bank.public, session, "bank") == bytes([9] * 32)
    True
    """
    return public + identity.sign(_signed(public, session))


def announced(
    body: bytes, identity: bytes, session: bytes, whose: str, pinned: bool = True
) -> bytes:
    """Return the public agreement key that ``whose`` announced.

    Parameters
    ----------
    body
        What came, from whoever.
    identity
        Its public identity.
    session
        The context that it must have signed.
    whose
        Its name, for errors.
    pinned
        Whether its identity is pinned, rather than told with what it announced.

    Raises
    ------
    RemoteProtocolError
        If it did not announce this for this session.
    """
    if len(body) != ANNOUNCEMENT_BYTES:
        raise RemoteProtocolError(
            f"the announcement of {whose!r} has {len(body)} bytes, expected {ANNOUNCEMENT_BYTES}"
        )
    public, signature = body[:AGREEMENT_BYTES], body[AGREEMENT_BYTES:]
    what = f"the announced key of {whose!r}"
    verify(identity, _signed(public, session), signature, what, pinned)
    return public


def _signed(public: bytes, session: bytes) -> bytes:
    return context("announcement", public, session)
