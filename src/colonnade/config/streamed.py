"""Sections about data that may be larger than memory: click logs, and a user's own long table."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
from pydantic import Field

from colonnade import defaults
from colonnade.config.data_section import DataSection
from colonnade.config.sections import Count, Name, Section, Share, Texts
from colonnade.datasets import avazu, criteo, synthetic_clicks
from colonnade.streamed import Columns, StreamedRows, streamed_rows
from colonnade.tables import LastRows, RowSplit, Splitting

__all__ = ["AvazuConfig", "CriteoConfig", "StreamedConfig", "SyntheticClicksConfig"]

_Buckets = Annotated[int, Field(ge=2, lt=2**31, strict=True)]


class RowSplitConfig(Section):
    """Which rows are for validation and for test; the others are for training."""

    by: Literal["hash", "order"] = Field(
        "hash",
        description="of the row's number; order: the last for test, those before for validation",
    )
    validation: Share = Field(0.1, description="share of the rows")
    test: Share = Field(0.2, description="share of the rows")
    seed: int = Field(0, ge=-(2**63), lt=2**63, strict=True, description="of the hash")

    @pydantic.model_validator(mode="after")
    def _fits(self) -> RowSplitConfig:
        if self.validation + self.test >= 1:
            raise ValueError("validation and test together should leave some rows for training")
        return self

    def build(self) -> Splitting:
        """Return the split."""
        if self.by == "order":
            return LastRows(self.validation, self.test)
        return RowSplit(self.validation, self.test, self.seed)


class _OnDisk(DataSection):
    """Data that are encoded once and stay on disk."""

    split: RowSplitConfig = RowSplitConfig()
    store: Path | None = Field(
        None,
        description="folder for the encoded rows, relative to this file's own; by default one of "
        "`colonnade` in the user's cache",
    )


class _Clicks(_OnDisk):
    """A log of clicks."""

    buckets: _Buckets | dict[str, _Buckets] = Field(
        defaults.BUCKETS, description="codes of each column of categories, or by its name"
    )

    def _encoding(self) -> dict[str, Any]:
        """Return what the loaders of all logs take."""
        return {"buckets": self.buckets, "split": self.split.build(), "store": self.store}


class CriteoConfig(_Clicks):
    """Criteo's clicks: 26 columns of categories, and 13 of counts."""

    name: Literal["criteo"] = "criteo"
    files: list[str] | None = Field(
        None, description="in the folder; by default `train.txt`, or `day_0` and so on"
    )

    def _load(self) -> StreamedRows:
        return criteo(self.folder, files=self.files, **self._encoding())


class AvazuConfig(_Clicks):
    """Avazu's clicks: 14 columns of the device and the advertisement, 8 of the publisher."""

    name: Literal["avazu"] = "avazu"
    files: list[str] | None = Field(None, description="in the folder; by default `train.csv`")

    def _load(self) -> StreamedRows:
        return avazu(self.folder, files=self.files, **self._encoding())


class SyntheticClicksConfig(_Clicks):
    """Made-up clicks in the form of Criteo's or Avazu's, of any length: SYNTHETIC, not real."""

    name: Literal["synthetic_clicks"] = "synthetic_clicks"
    rows: Count = Field(1_000_000, le=2**40, description="a million takes seconds to make")
    seed: int = Field(0, ge=-(2**63), lt=2**63, strict=True, description="draws the rows")
    like: Literal["criteo", "avazu"] = Field("criteo", description="whose columns they have")

    def _load(self) -> StreamedRows:
        return synthetic_clicks(
            rows=self.rows,
            seed=self.seed,
            like=self.like,
            **self._encoding(),
        )


class ColumnsConfig(Section):
    """A party's columns; see ``Columns``."""

    numeric: list[str] = Field([], description="columns that are numbers")
    categorical: list[str] = Field([], description="columns that are categories")
    buckets: _Buckets | dict[str, _Buckets] = Field(
        defaults.BUCKETS, description="codes of each column of categories, or by its name"
    )

    scale: Literal["log", "none"] = Field(
        "log", description="a number x becomes its sign times log(1 + abs(x)), or stays as it is"
    )
    endings: dict[str, Count] = Field(
        {}, description="columns in whose cells only so many last characters count"
    )

    def build(self) -> Columns:
        """Return the columns."""
        return Columns(**self.model_dump())


class StreamedConfig(_OnDisk):
    """One table of your own that may be larger than memory, its columns divided among parties."""

    name: Literal["streamed"] = "streamed"
    files: list[str] = Field(
        min_length=1, description="CSV or TSV, plain or .gz, or Parquet; one after the other"
    )
    parties: dict[Name, ColumnsConfig] = Field(min_length=1)
    label: str = Field(description="the column of labels")
    classes: Texts = Field(["0", "1"], description="how its cells are written, class by class")
    names: list[str] | None = Field(
        None, description="of the columns, where text has no line of names"
    )
    separator: str | None = Field(
        None, description="between a text's columns; by default a comma, or a tab for .tsv"
    )
    missing: Texts = Field([], description="how missing cells are written, besides empty ones")

    def _load(self) -> StreamedRows:
        folder = self.folder
        if folder is None and "COLONNADE_DATA" in os.environ:
            folder = Path(os.environ["COLONNADE_DATA"])
        files = [Path(file) if folder is None else folder / file for file in self.files]
        return streamed_rows(
            files,
            {name: section.build() for name, section in self.parties.items()},
            self.label,
            classes=self.classes,
            names=self.names,
            separator=self.separator,
            missing=self.missing,
            split=self.split.build(),
            store=self.store,
        )
