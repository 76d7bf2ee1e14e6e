"""Sections about the method: codecs, fusion, and the name of the composition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from colonnade import methods
from colonnade.codecs import Float, Scalar
from colonnade.config.sections import Chosen, Section, choice
from colonnade.models import Concat, Max, Mean, Sum

__all__ = ["MethodConfig"]

if TYPE_CHECKING:
    _Codec: TypeAlias = Chosen
    _Fusion: TypeAlias = Chosen
else:
    _Codec = choice("codec", float=Float, scalar=Scalar)
    _Fusion = choice("fusion", concat=Concat, sum=Sum, mean=Mean, max=Max)

_FLOAT: Any = "float"
_CONCAT: Any = "concat"


class MethodConfig(Section):
    """The method, and how its messages are encoded."""

    name: Literal["svfl"] = "svfl"
    embedding: _Codec = _FLOAT
    derivative: _Codec = _FLOAT
    fusion: _Fusion = _CONCAT

    def build(self) -> methods.Method:
        """Return the method."""
        return methods.svfl(self.embedding.build(), self.derivative.build(), self.fusion.build())
