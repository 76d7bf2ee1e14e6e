"""Sections about Colonnade's own models, each without its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, TypeAlias

import pydantic
from pydantic import Field
from torch import nn

from colonnade import defaults
from colonnade.assembly import (
    CnnBottom,
    Layers,
    LstmBottom,
    MvcnnBottom,
    PolynomialBottom,
    ResNet18Bottom,
    WideAndDeepBottom,
)
from colonnade.config.sections import Chosen, Count, Share
from colonnade.models import group_norm

__all__ = [
    "CnnConfig",
    "LstmConfig",
    "MlpConfig",
    "MvcnnConfig",
    "PolynomialConfig",
    "ResNet18Config",
    "TopConfig",
    "WideAndDeepConfig",
]


Activation: TypeAlias = Literal["identity", "relu", "sigmoid", "tanh", "gelu"]


class _Layers(Chosen):
    """What perceptrons have in common."""

    model: Literal["mlp"] = "mlp"
    widths: list[Count] = Field([*defaults.HIDDEN], description="outputs of each layer")
    activation: Activation = Field(defaults.ACTIVATION, description="follows every layer")
    dropout: Share = Field(0.0, description="chance that a component is dropped between layers")

    def build(self) -> Layers:
        """Return the layers."""
        return Layers(tuple(self.widths), self.activation, self.dropout)


class MlpConfig(_Layers):
    """A multi-layer perceptron; what has a shape is flattened for it."""

    @pydantic.model_validator(mode="after")
    def _has_layers(self) -> MlpConfig:
        if not self.widths:
            raise ValueError("widths should name a layer or more, not []")
        return self


class TopConfig(_Layers):
    """The layers of the label holder's perceptron before its output layer."""

    widths: list[Count] = Field(
        [*defaults.TOP], description="outputs of each layer; none: a linear model"
    )


class PolynomialConfig(Chosen):
    """Powers of inputs near [-1, 1], each through a linear layer, added up; see ``Polynomial``."""

    model: Literal["polynomial"] = "polynomial"
    width: Count = Field(32, description="the width of the embedding")
    degree: Count = Field(2, description="how many powers: the number of layers in FedVS's words")

    def build(self) -> PolynomialBottom:
        """Return the bottom model without its inputs."""
        return PolynomialBottom(self.width, self.degree)


class CnnConfig(Chosen):
    """Convolutions and a linear layer, for small pictures, quadrants and strips; see ``Cnn``."""

    model: Literal["cnn"] = "cnn"
    outputs: Count = Field(128, description="the width of the embedding")
    channels: list[Count] = Field([16, 32], min_length=1, description="of each convolution")

    def build(self) -> CnnBottom:
        """Return the bottom model without its inputs."""
        return CnnBottom(self.outputs, tuple(self.channels))


_NORMS: dict[str, Callable[[int], nn.Module]] = {"batch": nn.BatchNorm2d, "group": group_norm}


class ResNet18Config(Chosen):
    """A residual network for small pictures; see ``ResNet18``."""

    model: Literal["resnet18"] = "resnet18"
    outputs: Count = Field(128, description="the width of the embedding")
    width: Count = Field(64, description="channels of the first two blocks")
    norm: Literal["batch", "group"] = Field(
        "batch", description="after each convolution; group keeps the rows of a batch apart"
    )

    def build(self) -> ResNet18Bottom:
        """Return the bottom model without its inputs."""
        return ResNet18Bottom(self.outputs, self.width, _NORMS[self.norm])


class MvcnnConfig(Chosen):
    """A multi-view convolutional network, for views of an object; see ``Mvcnn``."""

    model: Literal["mvcnn"] = "mvcnn"
    outputs: Count = Field(128, description="the width of the embedding")
    grid: Count = Field(6, description="rows and columns left of a view before the linear layer")

    def build(self) -> MvcnnBottom:
        """Return the bottom model without its inputs."""
        return MvcnnBottom(self.outputs, self.grid)


class LstmConfig(Chosen):
    """A long short-term memory, for series in time; see ``Lstm``."""

    model: Literal["lstm"] = "lstm"
    hidden: Count = Field(16, description="components of the hidden state")
    outputs: Count | None = Field(
        None, description="the width of the embedding; by default it is the last hidden state"
    )
    layers: Count = Field(1, description="how many are stacked")
    dropout: Share = Field(0.0, description="between two layers")

    @pydantic.model_validator(mode="after")
    def _fits(self) -> LstmConfig:
        if self.dropout and self.layers == 1:
            raise ValueError("dropout acts between two layers, and this has one")
        return self

    def build(self) -> LstmBottom:
        """Return the bottom model without its inputs."""
        return LstmBottom(self.hidden, self.outputs, self.layers, self.dropout)


class WideAndDeepConfig(Chosen):
    """Embeddings of many categories, for clicks and the like; see ``WideAndDeep``."""

    model: Literal["wide_and_deep"] = "wide_and_deep"
    widths: list[Count] = Field([256, 256], min_length=1, description="outputs of each layer")
    activation: Activation = Field("relu", description="follows every layer but the last")
    embedding: Count = Field(16, description="the width of each category's embedding")
    wide: Annotated[int, Field(ge=0, strict=True)] = Field(
        1, description="outputs of the linear model beside the layers; 0 for none"
    )
    dropout: Share = Field(0.0, description="chance that a component is dropped between layers")
    sparse_gradients: bool = Field(
        False,
        description="whether a step touches only the categories of its batch, however many there "
        "are; for the optimisers adagrad and sgd, without momentum or weight_decay",
    )

    def build(self) -> WideAndDeepBottom:
        """Return the bottom model without its inputs."""
        return WideAndDeepBottom(
            tuple(self.widths),
            self.activation,
            self.embedding,
            self.wide,
            self.dropout,
            self.sparse_gradients,
        )
