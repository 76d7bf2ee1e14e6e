"""What a configuration says of its data: a public data set, streamed clicks, or own tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field

from colonnade.config.public import (
    Caltech7Config,
    Cifar10Config,
    Cifar100Config,
    CreditConfig,
    EmnistConfig,
    HandwrittenConfig,
    ImagenetConfig,
    ImagesConfig,
    MimicConfig,
    Modelnet10Config,
    OpenmlConfig,
    ParkinsonConfig,
)
from colonnade.config.streamed import (
    AvazuConfig,
    CriteoConfig,
    StreamedConfig,
    SyntheticClicksConfig,
)
from colonnade.config.tables import TablesConfig

__all__ = ["DataConfig", "as_data_section"]


def as_data_section(value: Any) -> Any:
    """Name the kind of data where a user did not: own tables have ``labels``, else it is a demo."""
    if isinstance(value, str):
        return {"name": value}
    if isinstance(value, Mapping) and "name" not in value:
        return {"name": "tables" if "labels" in value else "mnist5k"} | dict(value)
    return value


DataConfig: TypeAlias = Annotated[
    ImagesConfig
    | EmnistConfig
    | Cifar10Config
    | Cifar100Config
    | Modelnet10Config
    | ImagenetConfig
    | MimicConfig
    | HandwrittenConfig
    | Caltech7Config
    | ParkinsonConfig
    | CreditConfig
    | CriteoConfig
    | AvazuConfig
    | SyntheticClicksConfig
    | OpenmlConfig
    | StreamedConfig
    | TablesConfig,
    Field(discriminator="name"),
    BeforeValidator(as_data_section),
]
