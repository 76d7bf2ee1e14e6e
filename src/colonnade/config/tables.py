"""Sections about the organisations' own tables: where each is, and what its columns are to be."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import polars as pl
import pydantic
from pydantic import Field
from pydantic_core import PydanticCustomError

from colonnade.alignment import read_alignment
from colonnade.config.data_section import DataSection, Loaded
from colonnade.config.sections import Count, Name, Section, Share, Texts
from colonnade.config.variables import expanded, holds_a_secret
from colonnade.errors import ConfigurationError
from colonnade.paths import place_of
from colonnade.tables import (
    HashSplit,
    IdForm,
    StoredTable,
    VerticalTables,
    read_table,
    vertical_tables,
)
from colonnade.tables.numeric import Scale
from colonnade.tables.read import is_text_file
from colonnade.tables.table import as_table
from colonnade.tables.there import is_file
from colonnade.tables.together import LABELS, likely_id
from colonnade.telling import sort_of

if TYPE_CHECKING:
    from colonnade.tables import TableTransformer

__all__ = [
    "FeaturesConfig",
    "IdsConfig",
    "LabelTableConfig",
    "PartyTableConfig",
    "SplitConfig",
    "TableConfig",
    "TablesConfig",
    "check_sources",
    "holds_a_source",
]

_NO_TABLES = "(run.predict takes tables themselves)"

_SQLITE = "sqlite:///"  # before the path of a file


class SplitConfig(Section):
    """Who is for validation and for test, by a hash of the id; the others are for training."""

    validation: Share = Field(0.1, description="share of the people")
    test: Share = Field(0.2, description="share of the people")
    seed: int = Field(0, ge=-(2**63), lt=2**63, strict=True, description="of the hash")

    @pydantic.model_validator(mode="after")
    def _fits(self) -> SplitConfig:
        if self.validation + self.test >= 1:
            raise ValueError("validation and test together should leave some rows for training")
        return self

    def build(self) -> HashSplit:
        """Return the split."""
        return HashSplit(self.validation, self.test, self.seed)


class FeaturesConfig(Section):
    """How a table's columns become features; see ``TableTransformer``."""

    numeric: list[str] | None = Field(None, description="columns that are numbers")
    categorical: list[str] | None = Field(None, description="columns that are categories")
    ignore: list[str] = Field([], description="columns to leave out")
    dates: list[str] = Field([], description="columns of dates, which become days since 1970")
    scale: Scale = Field("standard", description="of numbers; unit is from 0 to 1")
    missing: Literal["median", "error"] = Field(
        "median", description="what a missing number becomes, with a column that says so"
    )
    one_hot_up_to: Count = Field(16, description="categories with more values are hashed")
    hash_buckets: Count = Field(32, description="columns that they are hashed into")
    unseen: Literal["warn", "zeros", "error"] = Field(
        "warn", description="what a category does that no training row has; warn is zeros, told of"
    )
    output: Literal["tensor", "dict"] = Field(
        "tensor", description="dict gives categories embedding tables instead of columns"
    )

    def build(self) -> TableTransformer:
        """Return the transformer, to be fitted."""
        from colonnade.tables import TableTransformer  # only here: it needs scikit-learn

        return TableTransformer(**self.model_dump())


class TableConfig(Section):
    """A table: a file, or a table or a query of a database."""

    source: str = Field(
        description="a CSV, TSV or Parquet file, or the URL of a database; "
        "$NAME or ${NAME} is replaced by that environment variable, so that no password is written"
    )
    table: str | None = Field(None, description="of a database: the table")
    query: str | None = Field(None, description="of a database: a query in its place")
    separator: str | None = Field(
        None, description="between a text file's columns; by default a comma, or a tab for .tsv"
    )
    missing: Texts = Field(
        [], description="what a text file writes for a missing value, besides the usual"
    )
    decimal: Literal[".", ","] | None = Field(
        None, description="what a text file writes for the decimal point; by default ."
    )

    @pydantic.field_validator("source")
    @classmethod
    def _has_no_password(cls, value: str) -> str:
        if holds_a_secret(value):
            # An error of its own: those of pydantic's come with the value, which is a secret here.
            raise PydanticCustomError(
                "secret",
                "has a password, which would be written into the run's folder and its report; "
                "put it into an environment variable and write $NAME in its place",
            )
        return value

    def where(self, folder: Path | None) -> str:
        """Return the file or the URL, variables replaced and relative to the data's folder.

        Raises
        ------
        ConfigurationError
            If a variable is not set.
        """
        source = expanded(self.source)
        if folder is None:
            return source
        if source.startswith(_SQLITE):
            return _SQLITE + str(folder / source.removeprefix(_SQLITE))
        return source if "://" in source else str(folder / source)

    def read(
        self,
        id: str | None,
        columns: list[str] | None,
        folder: Path | None,
        text: Sequence[str] = (),
    ) -> pl.DataFrame | StoredTable:
        """Read the table; one of Parquet stays on disk, and is read when it is needed.

        Of a text file the columns of ``text`` stay as they are written; others have their types.
        """
        where = self.where(folder)
        # What is for text is refused of other files where these are read.
        as_text = self.separator is not None or self.missing or self.decimal
        if where.endswith(".parquet") and "://" not in where and not as_text:
            key = [] if id is None else [id]
            return StoredTable(where, None if columns is None else [*key, *columns])
        return read_table(
            where,
            id=id,
            columns=columns,
            table=self.table,
            query=self.query,
            separator=self.separator,
            missing=self.missing,
            decimal=self.decimal,
            text=text if is_text_file(where) else (),
        )


class PartyTableConfig(TableConfig):
    """A party's table, and what of it is used how."""

    columns: list[str] | None = Field(None, description="by default all but the id")
    features: FeaturesConfig = FeaturesConfig()

    def read_for_training(self, id: str | None, folder: Path | None) -> pl.DataFrame | StoredTable:
        """Read what is to be trained on, categories as they are written."""
        return self.read(id, self.columns, folder, self.features.categorical or ())

    def at(self, source: str) -> PartyTableConfig:
        """Return how a table is read as this one from elsewhere: a path is meant from here.

        Raises
        ------
        ConfigurationError
            If it is a URL with a password.
        """
        if holds_a_secret(source):
            raise ConfigurationError(
                "a table's URL has a password; put it into an environment variable and write $NAME "
                "in its place"
            )
        is_file = "://" not in source
        place = str(Path(source).absolute()) if is_file else source
        settings: dict[str, Any] = {"table": None, "query": None} if is_file else {}
        if not is_text_file(source):
            settings |= {"separator": None, "missing": [], "decimal": None}
        return self.model_copy(update={"source": place, **settings})


class LabelTableConfig(TableConfig):
    """The table with the labels."""

    column: str = Field(description="the column of labels")


class IdsConfig(Section):
    """The form in which ids are compared; see ``IdForm``."""

    strip: bool = Field(True, description="spaces around, and what cannot be seen")
    casefold: bool = Field(True, description="whether case is ignored")
    pad: int | None = Field(
        None, ge=1, le=64, strict=True, description="digits that ids of digits alone are brought to"
    )

    def build(self) -> IdForm:
        """Return the form."""
        return IdForm(self.strip, self.casefold, self.pad)


class TablesConfig(DataSection):
    """The organisations' own tables, whose rows are found by an id."""

    name: Literal["tables"] = "tables"
    id: str | None = Field(
        None, description="the column that says whom a row is about, in every table"
    )
    aligned: bool = Field(
        False, description="in place of an id: row i is the same person in every table already"
    )
    ids: IdsConfig | None = Field(
        None, description="how ids are made alike that different hands have written"
    )
    alignment: Path | None = Field(
        None,
        description="the folder that `colonnade align` wrote: rows are of the ids in it; relative "
        "to this file's own folder",
    )
    parties: dict[Name, PartyTableConfig] = Field(min_length=1)
    labels: LabelTableConfig
    task: Literal["auto", "classification", "regression"] = "auto"
    split: SplitConfig = SplitConfig()

    @pydantic.model_validator(mode="after")
    def _is_in_order(self) -> TablesConfig:
        sources = {f"parties.{name}": party for name, party in self.parties.items()}
        for place, source in (sources | {"labels": self.labels}).items():
            if self.aligned and source.table is not None:
                raise ValueError(
                    f"{place} is a table of a database, whose rows have no order, so aligned: true "
                    "says nothing; name the id, or give a query with order by"
                )
        return self

    @pydantic.model_validator(mode="after")
    def _aligned_by_ids(self) -> TablesConfig:
        if self.alignment is not None and self.id is None:
            raise ValueError("alignment is of ids; say id: and the column that they are in")
        return self

    @property
    def taking_part(self) -> dict[str, PartyTableConfig]:
        """The tables of parties that are not left out.

        Raises
        ------
        ConfigurationError
            If nobody is left, or somebody is left out who is not there.
        """
        return self.without_left_out(self.parties)

    def of_parties(self, holds: str | None) -> dict[str, PartyTableConfig]:
        """Return the tables of parties that are not left out, but for the label holder's own.

        Parameters
        ----------
        holds
            The table that is the label holder's; None where it has labels alone.

        Raises
        ------
        ConfigurationError
            As ``taking_part``, and if there is no such table, or no other.
        """
        parties = self.taking_part
        if holds is not None and parties.pop(holds, None) is None:
            there = f"there are {', '.join(parties)}"
            raise ConfigurationError(f"label_holder.holds: there is no table {holds!r}; {there}")
        if not parties:
            raise ConfigurationError("a federation needs a party besides the label holder")
        return parties

    def load(self) -> Loaded:
        """Read the data as of every kind; once ids were aligned, nothing of who is left out.

        Who is in the run is known then. Else the run has the people of all tables, so that runs
        with and without a party can be compared. Errors are those of every kind.
        """
        return super().load() if self.alignment is None else self.of_those_taking_part()._load()

    def of_those_taking_part(self) -> TablesConfig:
        """Return this section as if nobody who is left out had a table at all."""
        return self.model_copy(update={"parties": self.taking_part, "leave_out": []})

    def tables_of_new_rows(
        self,
        sources: Mapping[str, str | Path],
        text: Mapping[str, Sequence[str]],
        without: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Read every party's table, of those that are named from elsewhere.

        Parameters
        ----------
        sources
            For a party the file or the URL of its new rows, which is read as its table is: a
            database by the same table or query.
        text
            Of a party which columns were text in training, and stay it.
        without
            Parties that have none any more.

        Raises
        ------
        ConfigurationError
            If there is no such party, what is named is no file or URL, or is a URL with a password,
            or a database is named for a party whose table was a file.
        DataError
            If a table cannot be read.
        """
        parties = {name: own for name, own in self.taking_part.items() if name not in without}
        for name, source in sources.items():
            if name not in parties:
                raise ConfigurationError(
                    f"there is no party {name!r}; there are {', '.join(parties)}"
                )
            said = f"the source of {name!r} is a file or the URL of a database {_NO_TABLES}"
            new = parties[name].at(place_of(said, source))
            if "://" in new.source and new.table is None and new.query is None:
                raise ConfigurationError(
                    f"the new rows of {name!r} are in a database, but the run's configuration "
                    "names no table or query of it, as it was trained on a file; write the new "
                    "rows into a file (CSV, Parquet), and name that"
                )
            parties[name] = new
        folder = self.place()
        return {
            name: party.read(self.id, party.columns, folder, text.get(name, ()))
            for name, party in parties.items()
        }

    def place(self) -> Path | None:
        """Return the folder that the tables are in; None where their paths say it all."""
        sources = [each.source for each in (*self.parties.values(), self.labels)]
        here = holds_a_source(Path(), sources)
        if self.folder is None and "COLONNADE_DATA" in os.environ and not here:
            return Path(os.environ["COLONNADE_DATA"])
        return self.folder

    def form(self) -> IdForm | None:
        """Return the form in which ids are compared; None as they are written."""
        return None if self.ids is None else self.ids.build()

    def _people(self) -> pl.Series | None:
        """Return the ids that were aligned; None where all are there to be compared."""
        if self.alignment is None:
            return None
        found = read_alignment(self.alignment)
        kept = {table: each for each in found.values() for table in each.rows}
        form = self.form()
        for table in (*self.parties, LABELS):
            if table not in kept:
                raise ConfigurationError(
                    f"data.alignment: {self.alignment} has no file of who holds the table "
                    f"{table!r}; align again, or leave it out here too (data.leave_out)"
                )
            if (kept[table].id, kept[table].form) != (self.id, "" if form is None else repr(form)):
                raise ConfigurationError(
                    f"data.alignment: {self.alignment} is of ids in the column {kept[table].id!r} "
                    f"{kept[table].form}; say the same id and ids, or align again".replace(
                        "  ", " "
                    )
                )
        return next(iter(kept.values())).ids

    def _load(self) -> VerticalTables:
        people = self._people()
        folder = self.place()
        tables = {
            name: party.read_for_training(self.id, folder) for name, party in self.parties.items()
        }
        if self.id is None and not self.aligned:
            column = likely_id({name: as_table(table) for name, table in tables.items()})
            looks = f"id: {column}, which looks like it" if column else "id: and its column"
            raise ConfigurationError(
                "data: nothing says which rows of the tables are the same person; say "
                f"{looks}, or aligned: true if the rows are in one order already"
            )
        answers = self.labels.read(self.id, [self.labels.column], self.place())
        return vertical_tables(
            tables,
            answers,
            id=self.id,
            normalise=self.form(),
            aligned=self.aligned,
            split=self.split.build(),
            transformers={name: party.features.build() for name, party in self.parties.items()},
            task=self.task,
            label_column=self.labels.column,
            people=people,
        )


def check_sources(sources: object) -> None:
    """Raise ``ConfigurationError`` unless sources are named by party; each is looked at later.

    Examples
    --------
    >>> check_sources(["bank.csv", "shop.csv"])
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: sources is a dict from parties to files or URLs of \
databases (run.predict takes tables themselves), not a list
    """
    if not isinstance(sources, Mapping):
        raise ConfigurationError(
            f"sources is a dict from parties to files or URLs of databases {_NO_TABLES}, not "
            f"{sort_of(sources)}"
        )


def holds_a_source(folder: Path, sources: Iterable[str]) -> bool:
    """Return whether a file or SQLite's database of these is in a folder, by a relative path."""
    paths = (os.path.expandvars(source).removeprefix(_SQLITE) for source in sources)
    files = (Path(path) for path in paths if "://" not in path)
    return any(is_file(folder / file) for file in files if not file.is_absolute())
