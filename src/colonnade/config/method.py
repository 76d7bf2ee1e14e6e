"""Sections about the method: codecs, fusion, and the name of the composition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic import model_validator

from colonnade import methods
from colonnade.codecs import QSGD, Codec, Float, Scalar, TopK
from colonnade.config.sections import Chosen, Section, choice
from colonnade.errors import ConfigurationError
from colonnade.models import Concat, Max, Mean, Sum

__all__ = ["MethodConfig"]

if TYPE_CHECKING:
    _Codec: TypeAlias = Chosen
    _Fusion: TypeAlias = Chosen
else:
    _DENSE = {"float": Float, "scalar": Scalar, "qsgd": QSGD}
    _Codec = choice("codec", {Codec: (choice("codec", **_DENSE), "float")}, **_DENSE, top_k=TopK)
    _Fusion = choice("fusion", concat=Concat, sum=Sum, mean=Mean, max=Max)

_FLOAT: Any = "float"
_CONCAT: Any = "concat"


_METHODS = {"svfl": methods.svfl, "efvfl": methods.efvfl}


class MethodConfig(Section):
    """The method, and how its messages are encoded."""

    name: Literal["svfl", "efvfl"] = "svfl"
    embedding: _Codec = _FLOAT
    derivative: _Codec = _FLOAT
    fusion: _Fusion = _CONCAT

    def build(self) -> methods.Method:
        """Return the method."""
        parts = (self.embedding.build(), self.derivative.build(), self.fusion.build())
        return _METHODS[self.name](*parts)

    @model_validator(mode="after")
    def _accepted(self) -> MethodConfig:
        try:
            self.build()
        except ConfigurationError as error:
            raise ValueError(str(error)) from None
        return self
