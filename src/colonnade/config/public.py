"""Sections about public data sets, by name, and how their columns are divided among parties."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pydantic
from pydantic import BeforeValidator, Field

from colonnade.config.data_section import DataSection
from colonnade.config.sections import Count, Name, Number, Share
from colonnade.config.tables import FeaturesConfig, SplitConfig
from colonnade.datasets import (
    EmnistSplit,
    PartitionName,
    VerticalDataset,
    caltech7,
    cifar10,
    cifar100,
    credit_default,
    emnist,
    fashion_mnist,
    handwritten,
    imagenet,
    mimic3_mortality,
    mnist,
    mnist5k,
    modelnet10,
    openml,
    parkinson,
)
from colonnade.datasets.pixels import check_normalise
from colonnade.errors import ConfigurationError
from colonnade.tables import VerticalTables
from colonnade.tables.numeric import Scale

__all__ = [
    "Caltech7Config",
    "Cifar10Config",
    "Cifar100Config",
    "CreditConfig",
    "EmnistConfig",
    "HandwrittenConfig",
    "ImagenetConfig",
    "ImagesConfig",
    "MimicConfig",
    "Modelnet10Config",
    "OpenmlConfig",
    "ParkinsonConfig",
]

_IMAGES = {"mnist5k": mnist5k, "mnist": mnist, "fashion_mnist": fashion_mnist}

_Finite = Annotated[Number, pydantic.AllowInfNan(False)]


class _Divided(DataSection):
    """Data that come divided into rows to train on and rows to test on."""

    validation: Share = Field(0.0, description="share of the training rows that is set aside")
    train_rows: Count | None = Field(None, description="use only the first ones")
    test_rows: Count | None = Field(None, description="use only the first ones")

    def _load(self) -> VerticalDataset:
        dataset = self._read()
        if self.train_rows is not None or self.test_rows is not None:
            dataset = dataset.head(self.train_rows, self.test_rows)
        if self.validation and len(dataset.validation):
            raise ConfigurationError(
                f"data.validation: {dataset.name} has {len(dataset.validation)} rows for "
                "validation of its own; leave the share out"
            )
        return dataset.with_validation(self.validation)

    def _read(self) -> VerticalDataset:
        raise AssertionError("every data set has its own")  # pragma: no cover


class _Cut(DataSection):
    """Pictures that are cut among parties."""

    partition: PartitionName = Field("quadrants", description="who sees which pixels")
    parties: Count = Field(4, description="4 for quadrants; strips for as many as you like")


class _Grey(DataSection):
    """Pictures of one channel."""

    normalise: tuple[_Finite, _Finite] | None = Field(
        None, description="mean and deviation that pixels are normalised by"
    )


_Levels = Annotated[
    list[_Finite],
    BeforeValidator(
        lambda value: [value] if isinstance(value, (int, float)) else value,
        json_schema_input_type=float | list[float],
    ),
]


class _Coloured(DataSection):
    """Pictures of several channels."""

    normalise: tuple[_Levels, _Levels] | None = Field(
        None,
        description="mean and deviation that pixels are normalised by, each one number or one for "
        "each colour",
    )

    @pydantic.model_validator(mode="after")
    def _fits(self) -> _Coloured:
        try:
            check_normalise(self.normalise, self._channels())
        except ConfigurationError as error:
            raise ValueError(str(error)) from None
        return self

    def _channels(self) -> int:
        return 3


class ImagesConfig(_Divided, _Grey, _Cut):
    """Pictures of digits or clothes."""

    name: Literal["mnist5k", "mnist", "fashion_mnist"] = "mnist5k"
    flatten: bool = Field(
        True, description="pixels in a row; false leaves parts pictures, as convolutions want them"
    )

    def _read(self) -> VerticalDataset:
        return _IMAGES[self.name](
            self.folder,
            partition=self.partition,
            parties=self.parties,
            flatten=self.flatten,
            normalise=self.normalise,
        )


class EmnistConfig(_Divided, _Grey, _Cut):
    """Pictures of digits and letters."""

    name: Literal["emnist"] = "emnist"
    split: EmnistSplit = Field("balanced", description="which of the official six")

    def _read(self) -> VerticalDataset:
        return emnist(
            self.folder,
            split=self.split,
            partition=self.partition,
            parties=self.parties,
            flatten=False,
            normalise=self.normalise,
        )


class Cifar10Config(_Divided, _Coloured, _Cut):
    """Small pictures of 10 things."""

    name: Literal["cifar10"] = "cifar10"

    def _read(self) -> VerticalDataset:
        return cifar10(
            self.folder,
            partition=self.partition,
            parties=self.parties,
            normalise=self.normalise,
        )


class Cifar100Config(_Divided, _Coloured, _Cut):
    """Small pictures of 100 things."""

    name: Literal["cifar100"] = "cifar100"
    labels: Literal["fine", "coarse"] = Field("fine", description="of 100 classes, or of 20")

    def _read(self) -> VerticalDataset:
        return cifar100(
            self.folder,
            labels=self.labels,
            partition=self.partition,
            parties=self.parties,
            normalise=self.normalise,
        )


class Modelnet10Config(_Divided, _Coloured):
    """Pictures of furniture from all sides, which are divided among parties."""

    name: Literal["modelnet10"] = "modelnet10"
    parties: Count = Field(4, description="a divisor of how many views there are, of 12 as a rule")
    size: Count = Field(64, description="height and width that pictures are scaled to, in pixels")
    channels: Literal[1, 3] = Field(3, description="grey, or colours")

    def _channels(self) -> int:
        return self.channels

    def _read(self) -> VerticalDataset:
        return modelnet10(
            self.folder,
            parties=self.parties,
            size=self.size,
            channels=self.channels,
            normalise=self.normalise,
        )


def _number_or_names(value: Any) -> Any:
    names = isinstance(value, list) and all(isinstance(name, str) for name in value)
    if not names and (type(value) is not int or value < 2):
        raise ValueError("input should be a number of 2 or more, or a list of names")
    return value


class ImagenetConfig(_Divided, _Coloured, _Cut):
    """Pictures of some classes of ImageNet."""

    name: Literal["imagenet"] = "imagenet"
    classes: Annotated[int | list[str], BeforeValidator(_number_or_names)] = Field(
        100, description="their folders' names, or how many: the first ones"
    )
    size: Count = Field(64, description="height and width that pictures are scaled to, in pixels")

    def _read(self) -> VerticalDataset:
        return imagenet(
            self.folder,
            classes=self.classes,
            size=self.size,
            partition=self.partition,
            parties=self.parties,
            normalise=self.normalise,
        )


class MimicConfig(_Divided):
    """Two days in intensive care, hour by hour, and who died in hospital (MIMIC-III)."""

    name: Literal["mimic3_mortality"] = "mimic3_mortality"
    parties: Count = Field(4, description="each has a run of the 76 columns")
    standardise: bool = Field(True, description="numbers, over the training rows")

    def _read(self) -> VerticalDataset:
        return mimic3_mortality(self.folder, parties=self.parties, standardise=self.standardise)


class _Numbers(DataSection):
    """Columns of numbers that are brought to one scale."""

    scale: Scale = Field(
        "standard",
        description="of numbers, by the training rows; unit is from 0 to 1, for polynomial",
    )


class HandwrittenConfig(_Divided, _Numbers):
    """Six views of handwritten digits (UCI multiple features)."""

    name: Literal["handwritten"] = "handwritten"
    test: Share = Field(0.2, description="share of the rows to test on")

    def _read(self) -> VerticalDataset:
        return handwritten(self.folder, scale=self.scale, test=self.test)


class Caltech7Config(_Divided, _Numbers):
    """Six views of pictures of seven things (Caltech101-7)."""

    name: Literal["caltech7"] = "caltech7"
    test: Share = Field(0.2, description="share of the rows to test on")

    def _read(self) -> VerticalDataset:
        return caltech7(self.folder, scale=self.scale, test=self.test)


class ParkinsonConfig(_Divided, _Numbers):
    """Parkinson's disease from speech, its columns shared out among parties."""

    name: Literal["parkinson"] = "parkinson"
    parties: Count = Field(10, description="each has a run of the columns")
    test: Share = Field(0.3, description="share of the people to test on")

    def _read(self) -> VerticalDataset:
        return parkinson(self.folder, parties=self.parties, scale=self.scale, test=self.test)


class CreditConfig(_Numbers):
    """Default of credit card clients, as a bank, a bureau and a processor, or of more parties."""

    name: Literal["credit_default"] = "credit_default"
    parties: Count | None = Field(
        None,
        description="each has a run of the 23 columns; by default, the three companies",
    )
    split: SplitConfig = SplitConfig()

    def _load(self) -> VerticalTables:
        return credit_default(
            self.folder, parties=self.parties, scale=self.scale, split=self.split.build()
        )


class OpenmlConfig(DataSection):
    """A data set of OpenML, its columns divided among parties."""

    name: Literal["openml"] = "openml"
    dataset: str = Field(description="its name on OpenML")
    version: Count | None = Field(None, description="by default the oldest active one")
    target: str | None = Field(None, description="the column to predict, if not the usual one")
    parties: dict[Name, list[str]] = Field(min_length=1, description="columns of each party")
    task: Literal["auto", "classification", "regression"] = "auto"
    features: dict[Name, FeaturesConfig] = Field({}, description="of parties that differ")
    split: SplitConfig = SplitConfig()

    def _load(self) -> VerticalTables:
        return openml(
            self.dataset,
            self.parties,
            target=self.target,
            version=self.version,
            folder=self.folder,
            split=self.split.build(),
            transformers={name: section.build() for name, section in self.features.items()},
            task=self.task,
        )
