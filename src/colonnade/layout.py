"""Who takes part, and the shape of the table of embeddings that they make together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from colonnade.errors import ConfigurationError
from colonnade.secure import Secrets

__all__ = ["Layout"]


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
