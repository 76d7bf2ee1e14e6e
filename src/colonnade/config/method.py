"""Sections about the method: codecs, fusion, and the name of the composition."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic import Field, NonNegativeFloat, model_validator

from colonnade import methods
from colonnade.codecs import (
    QSGD,
    ByRound,
    Codec,
    Entropy,
    Float,
    LargeRows,
    Lattice,
    LloydMax,
    ProductQuantised,
    Scalar,
    TopK,
)
from colonnade.codecs.quantiser import Quantiser
from colonnade.config.sections import Chosen, Count, Section, choice
from colonnade.errors import ConfigurationError
from colonnade.models import Concat, Max, Mean, Sum
from colonnade.surrogates import Disk, Memory

__all__ = ["MethodConfig"]

if TYPE_CHECKING:
    _Codec: TypeAlias = Chosen
    _Storage: TypeAlias = Chosen
    _Fusion: TypeAlias = Chosen
else:
    _QUANTISERS = {
        "scalar": Scalar,
        "lattice": Lattice,
        "lloyd_max": LloydMax,
        "qsgd": QSGD,
        "product": ProductQuantised,
    }
    _Entropy = {Quantiser: (choice("codec", **_QUANTISERS), ...)}
    _DENSE = {"float": Float, **_QUANTISERS, "entropy": Entropy}
    _Values = {**_Entropy, Codec: (choice("codec", _Entropy, **_DENSE), "float")}
    _STEADY = {**_DENSE, "top_k": TopK, "large_rows": LargeRows}
    _Steps = {**_Values, tuple[Codec, ...]: (tuple[choice("codec", _Values, **_STEADY), ...], ...)}
    _Codec = choice("codec", _Steps, **_STEADY, by_round=ByRound)
    _Storage = choice("storage", memory=Memory, disk=Disk)
    _Fusion = choice("fusion", concat=Concat, sum=Sum, mean=Mean, max=Max)

_FLOAT: Any = "float"
_CONCAT: Any = "concat"
_MEMORY: Any = "memory"
_METHODS: dict[str, Callable[..., methods.Method]] = {
    "svfl": methods.svfl,
    "fedbcd": methods.fedbcd,
    "cvfl": methods.cvfl,
    "efvfl": methods.efvfl,
    "lean": methods.lean,
}
_ARGUMENTS = {
    "embedding": "codec",
    "derivative": "derivative_codec",
    "top": "top_codec",
    "surrogates": "storage",
}
_UNUSED: dict[str, Any] = {
    "embedding": Float(),
    "derivative": Float(),
    "fusion": Concat(),
    "labels": "private",
    "local_steps": 1,
    "correction": 0.0,
    "top": None,
    "others": "codes",
    "surrogates": Memory(),
}
"""What a setting is that asks for nothing: a method need not have it then."""


class MethodConfig(Section):
    """The method, and how its messages are encoded."""

    name: Literal["svfl", "fedbcd", "cvfl", "efvfl", "lean"] = "svfl"
    embedding: _Codec = Field(_FLOAT, description="how embeddings are encoded")
    derivative: _Codec = Field(_FLOAT, description="private labels: how derivatives are encoded")
    fusion: _Fusion = _CONCAT
    labels: Literal["private", "shared"] = Field(
        "private", description="shared: every party has them, and hears of the others' embeddings"
    )
    local_steps: Count = Field(1, description="steps on a batch for one exchange, Q")
    correction: NonNegativeFloat = Field(
        0.0, description="svfl: lambda of FedLite's correction of derivatives for lossy embeddings"
    )
    top: _Codec | None = Field(
        None, description="shared labels: how the top model's parameters are encoded"
    )
    others: Literal["codes", "total"] = Field(
        "codes", description="shared labels: what parties hear of the others' embeddings"
    )
    surrogates: _Storage = Field(
        _MEMORY, description="efvfl: where what is known of each row is kept"
    )

    def build(self) -> methods.Method:
        """Return the method.

        Raises
        ------
        ConfigurationError
            If it has no such setting, or refuses the combination.
        """
        make = _METHODS[self.name]
        accepted, given = inspect.signature(make).parameters, {}
        for key in _UNUSED:
            value, argument = getattr(self, key), _ARGUMENTS.get(key, key)
            value = value.build() if hasattr(value, "build") else value
            if argument in accepted:
                given[argument] = value
            elif value != _UNUSED[key]:
                raise ConfigurationError(f"{self.name} has no {key}")
        return make(**given)

    @model_validator(mode="after")
    def _accepted(self) -> MethodConfig:
        try:
            self.build()
        except ConfigurationError as error:
            raise ValueError(str(error)) from None
        return self
