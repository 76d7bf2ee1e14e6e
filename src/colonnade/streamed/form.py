"""What of each row of a long table is encoded, for whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from colonnade.errors import ConfigurationError
from colonnade.kernels.cells import one_form
from colonnade.streamed.columns import Columns
from colonnade.tables.names import listed
from colonnade.telling import shown

__all__ = ["Form"]


@dataclass(frozen=True)
class Form:
    """The columns of each organisation, the label, and how cells are written.

    Parameters
    ----------
    parties
        For every organisation, in party order, its columns.
    label
        The column of labels; None where rows have none.
    classes
        How the cells of that column are written, class by class; 1, 1.0 and True are one form.
    missing
        How missing cells are written, besides empty ones.

    Raises
    ------
    ConfigurationError
        If there is no organisation, a column belongs to two, or classes are not two or more.

    Examples
    --------
    >>> form = Form({"shop": Columns(["price"], ["town"]), "bank": Columns(["income"])}, "bought")
    >>> form.columns
    ('price', 'town', 'income', 'bought')
    >>> form.numbers("bank"), form.codes("bank")
    (slice(1, 2, None), slice(1, 1, None))
    """

    parties: Mapping[str, Columns]
    label: str | None = None
    classes: Sequence[str] = ("0", "1")
    missing: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not self.parties:
            raise ConfigurationError("there is no party; name at least one and its columns")
        owners: dict[str, str] = {}
        for party, columns in self.parties.items():
            for name in columns.names:
                if name == self.label:
                    raise ConfigurationError(
                        f"{name!r} is a column of {party!r} and the label, which is what is to be "
                        "predicted; take it from the party"
                    )
                if owners.setdefault(name, party) != party:
                    raise ConfigurationError(
                        f"{name!r} is a column of {owners[name]!r} and of {party!r}; "
                        "give it to one of them"
                    )
        for what in ("classes", "missing"):
            given = getattr(self, what)
            is_list = isinstance(given, Iterable) and not isinstance(given, str | Mapping)
            if not is_list or not all(isinstance(each, str) for each in given):
                raise ConfigurationError(
                    f"{what} must be a list of texts, as the file writes them, not {shown(given)}"
                )
            object.__setattr__(self, what, tuple(given))
        if len(set(map(one_form, self.classes))) != len(self.classes) or len(self.classes) < 2:
            raise ConfigurationError(
                f"classes must be two or more different texts, not {listed(self.classes)}"
            )
        if "" in self.classes:
            raise ConfigurationError("an empty cell is a missing label, and cannot be a class")

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are read, the label last."""
        own = [name for columns in self.parties.values() for name in columns.names]
        return (*own, *([] if self.label is None else [self.label]))

    def numbers(self, party: str) -> slice:
        """Return which of all numbers of a row are a party's."""
        return self._slice(party, lambda columns: len(columns.numeric))

    def codes(self, party: str) -> slice:
        """Return which of all codes of a row are a party's."""
        return self._slice(party, lambda columns: len(columns.categorical))

    def of(self, party: str) -> Form:
        """Return the form of rows of which a party's columns are known and no label is."""
        return Form({party: self.parties[party]}, None, self.classes, self.missing)

    def as_dict(self) -> dict[str, Any]:
        """Return all that decides what is encoded, as JSON values."""
        return {
            "parties": {party: columns.as_dict() for party, columns in self.parties.items()},
            "label": self.label,
            "classes": list(self.classes),
            "missing": list(self.missing),
        }

    def _slice(self, party: str, width: Any) -> slice:
        names = list(self.parties)
        first = sum(width(self.parties[name]) for name in names[: names.index(party)])
        return slice(first, first + width(self.parties[party]))
