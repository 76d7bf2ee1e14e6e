"""Who takes part, and the shape of the table of embeddings that they make together."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from colonnade.errors import ConfigurationError
from colonnade.secure import Secrets

__all__ = ["Layout", "check_names"]

_LONGEST = 200  # bytes of a name: files are called after it, and file systems take 255
_SHOWN = 60  # characters of a long one in a message


@dataclass(frozen=True)
class Layout:
    """Who has embeddings of which width, for how many rows.

    Parameters
    ----------
    parties
        Names, in party order.
    label_holder
        Its name.
    widths
        The width of each organisation's embeddings, in party order, the label holder's last; it is
        not among them where it has no columns.
    rows
        Of the aligned table.
    seed
        The run's seed, which all know: no secret comes from it, but in a simulation.
    simulated
        Whether the run is declared a simulation, so that secrets come from the seed, too.
    terms
        Of parties whose embeddings are linear in known powers of their features
        (``LinearInPowers``): how many products a component is the sum of.

    Raises
    ------
    ConfigurationError
        If names are none that organisations can have, see ``check_names``.

    Examples
    --------
    >>> layout = Layout(("bank", "shop"), "insurer", {"bank": 3, "shop": 2, "insurer": 4}, 100, 0)
    >>> layout.party_widths
    {'bank': 3, 'shop': 2}
    """

    parties: tuple[str, ...]
    label_holder: str
    widths: Mapping[str, int]
    rows: int
    seed: int
    simulated: bool = False
    terms: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_names([*self.parties, self.label_holder])

    @property
    def party_widths(self) -> dict[str, int]:
        """The widths of the parties alone."""
        return {party: self.widths[party] for party in self.parties}

    def secrets_for(self, name: str, own: Secrets | None = None) -> Secrets:
        """Return what an organisation draws from: its own, or new ones from system or seed.

        Parameters
        ----------
        name
            Whose they are.
        own
            What it was given, if anything.

        Raises
        ------
        ConfigurationError
            If they are made of a seed and the run is not declared a simulation, or the reverse.
        """
        seeded = Secrets.insecure(self.seed)
        if own is None:
            return seeded if self.simulated else Secrets.system()
        if own.simulated and not self.simulated:
            raise ConfigurationError(
                f"the secrets of {name!r} are made of a seed, from which anybody can draw its "
                "masks and noise, and this is not declared a simulation: give it Secrets.system(), "
                'or none, or declare one with Training(secrets="seed")'
            )
        if self.simulated and own != seeded:
            raise ConfigurationError(
                f"{name!r} has secrets of its own, and this run is declared a simulation, in which "
                'all come from its seed: leave them out, or train with Training(secrets="system")'
            )
        return own

    @property
    def own_width(self) -> int | None:
        """The width of the label holder's own embeddings; None where it has no columns."""
        return self.widths.get(self.label_holder)


def check_names(names: Sequence[object]) -> None:
    """Raise ``ConfigurationError`` unless all names are fit and no two are alike.

    Files are called by them, on every computer that takes part, and people are told of them. So a
    name is text that can be printed, in any alphabet, of 200 bytes at most, and no path. Two that
    differ in case alone, or in how accents are composed, are one file on some computers.

    >>> check_names(["Müller & Söhne", "5", "bank"])
    >>> check_names(["bank", "Bank"])
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: two organisations are called 'bank' and 'Bank', which some computers take for one
    """  # noqa: E501 - a message is one line
    known: dict[str, str] = {}
    for name in names:
        if not isinstance(name, str):
            raise ConfigurationError(
                f"an organisation cannot be called {name!r}: a name is text, not a "
                f"{type(name).__name__}"
            )
        if wrong := _unfit(name):
            told = repr(name) if len(name) <= _SHOWN else f"{name[:_SHOWN]!r}..."
            raise ConfigurationError(f"an organisation cannot be called {told}: {wrong}")
        alike = unicodedata.normalize("NFC", name).casefold()
        other = known.get(alike)
        if other == name:
            raise ConfigurationError(f"two organisations are called {name!r}")
        if other is not None:
            raise ConfigurationError(
                f"two organisations are called {other!r} and {name!r}, which some computers take "
                "for one"
            )
        known[alike] = name


def _unfit(name: str) -> str:
    """Return what is wrong with a name; nothing where it is fit."""
    if not name or name != name.strip():
        return "a name is not empty, and begins and ends with no space"
    if name.startswith(".") or "/" in name or "\\" in name:
        return "files are called by it, so it begins with no dot and has no slash"
    if not name.isprintable():
        odd = next(c for c in name if not c.isprintable())
        return f"it has the character {odd!a}, which cannot be printed"
    if len(name.encode()) > _LONGEST:
        return f"it takes {len(name.encode())} bytes, and files can be called by {_LONGEST}"
    return ""
