"""What sections about data have in common, whatever kind of data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from pydantic import Field

from colonnade.config.sections import Name, Section
from colonnade.datasets import VerticalDataset
from colonnade.errors import ConfigurationError
from colonnade.streamed import StreamedRows
from colonnade.tables import VerticalTables

__all__ = ["DataSection", "Loaded"]

_Part = TypeVar("_Part")
Loaded: TypeAlias = VerticalDataset | VerticalTables | StreamedRows


class DataSection(Section):
    """What all kinds of data have in common."""

    folder: Path | None = Field(
        None,
        description="holds the files, relative to this file's own folder; else COLONNADE_DATA",
    )
    leave_out: list[Name] = Field([], description="parties to train without")
    name: str  # each kind has its own

    def load(self) -> Loaded:
        """Read the data, without the parties that are left out.

        Raises
        ------
        ConfigurationError
            If nobody is left, or somebody is left out who is not there.
        DataError
            If the data cannot be read or used.
        """
        data = self._load()
        kept: Any = self.without_left_out(data.features)
        return replace(data, features=kept) if self.leave_out else data

    def without_left_out(self, parties: Mapping[str, _Part]) -> dict[str, _Part]:
        """Return what is of parties that are not left out.

        Raises
        ------
        ConfigurationError
            If nobody is left, or somebody is left out who is not there.
        """
        for name in self.leave_out:
            if name not in parties:
                raise ConfigurationError(
                    f"data.leave_out: there is no party {name!r}; there are {', '.join(parties)}"
                )
        kept = {name: part for name, part in parties.items() if name not in self.leave_out}
        if not kept:
            raise ConfigurationError("data.leave_out: leaves out every party")
        return kept

    def _load(self) -> Loaded:
        raise AssertionError("every kind of data has its own")  # pragma: no cover
