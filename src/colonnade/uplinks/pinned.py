"""Identities that parties pin for each other, and what follows where they do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from colonnade.disclosures import Disclosure
from colonnade.errors import ConfigurationError, RemoteProtocolError
from colonnade.organisations import Party
from colonnade.secure import checked_identity

__all__ = ["check_shown", "checked_identities", "pinned", "unpinned"]


def checked_identities(identities: Mapping[str, str]) -> None:
    """Raise ``ConfigurationError`` unless each is a public identity in hexadecimal digits."""
    for party, told in identities.items():
        try:
            checked_identity(bytes.fromhex(str(told)), party)
        except ValueError:
            raise ConfigurationError(
                f"the identity of {party!r} is {told!r}, but a public identity is 64 hexadecimal "
                "digits"
            ) from None
        except RemoteProtocolError as error:
            raise ConfigurationError(str(error)) from None


def pinned(identities: Mapping[str, str], parties: Sequence[str]) -> dict[str, bytes]:
    """Return the identities by party, as bytes.

    Raises
    ------
    ConfigurationError
        If one is of who is no party.
    """
    strangers = sorted(set(identities) - set(parties))
    if strangers:
        raise ConfigurationError(
            f"identities has {', '.join(strangers)}, but the parties are {', '.join(parties)}"
        )
    return {party: bytes.fromhex(told) for party, told in identities.items()}


def check_shown(identities: Mapping[str, str], party: Party) -> None:
    """Raise ``ConfigurationError`` if a party has nothing to show its pinned identity by."""
    if party.name in identities and party.secrets is None:
        raise ConfigurationError(
            f"identities has one for {party.name!r}, which has no secrets here to show it by: "
            "give Party(..., secrets=...), or leave identities out, as a configuration file "
            "does, which cannot keep secrets"
        )


def unpinned(
    identities: Mapping[str, str], parties: Sequence[str], sees: str
) -> tuple[Disclosure, ...]:
    """Return what a label holder could see that put its own keys in place of those not pinned."""
    believed = [party for party in parties if party not in identities]
    if not believed:
        return ()
    return (
        Disclosure(
            "identities",
            f"not pinned for {', '.join(believed)}: the label holder could put keys of its "
            "own in place of theirs",
            to="a label holder that put keys of its own in place of the parties'",
            sees=f"{sees}, as nothing pins who these are: have each party pin "
            "the others by `identities`",
        ),
    )
