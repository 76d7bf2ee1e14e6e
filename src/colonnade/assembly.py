"""A federation from prepared data and a description of its models.

What configuration files and estimators share: they say what the models look like, and here each
organisation's is made from its own seed, so that a bottom starts the same whoever else takes part.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, get_type_hints

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from colonnade import defaults
from colonnade.checks import embedding_width
from colonnade.drawing import drawing, drawing_apart
from colonnade.errors import ColonnadeError, ConfigurationError
from colonnade.faults import of_the_disk
from colonnade.federation import Federation
from colonnade.layout import check_names
from colonnade.models import (
    Bounded,
    Cnn,
    Concat,
    Features,
    Fusion,
    Lstm,
    Mvcnn,
    OptimiserFactory,
    Polynomial,
    ResNet18,
    SchedulerFactory,
    Sparse,
    Tabular,
    WideAndDeep,
    mlp,
    shown,
)
from colonnade.objectives import Objective
from colonnade.organisations import LabelHolder, Loss, Party, Transformer
from colonnade.streams import StreamKey
from colonnade.telling import first_line

__all__ = [
    "Blueprint",
    "Bottom",
    "BoundedBottom",
    "CnnBottom",
    "Layers",
    "LstmBottom",
    "ModuleBottom",
    "ModuleTop",
    "MvcnnBottom",
    "PolynomialBottom",
    "ResNet18Bottom",
    "SparseBottom",
    "Top",
    "VerticalData",
    "WideAndDeepBottom",
    "assemble",
    "judge_of",
    "label_holder_of",
    "party_of",
]


class VerticalData(Protocol):
    """Rows that are aligned, features by party, labels, and which rows are for what."""

    @property
    def features(self) -> Mapping[str, Features]:
        """Each party's features, in party order."""
        ...

    @property
    def labels(self) -> Tensor:
        """A label for each row."""
        ...

    @property
    def train(self) -> NDArray[Any]:
        """Row numbers to train on."""
        ...

    @property
    def validation(self) -> NDArray[Any]:
        """Row numbers to choose the model by."""
        ...

    @property
    def test(self) -> NDArray[Any]:
        """Row numbers to test on."""
        ...

    @property
    def transformers(self) -> Mapping[str, Transformer]:
        """What made the features from tables, of parties that brought tables."""
        ...

    @property
    def classes(self) -> tuple[Any, ...] | int | None:
        """What each class stands for, or how many there are; None for numbers."""
        ...

    @property
    def people(self) -> Mapping[str, Any] | None:
        """How many people were left out, where rows were found by ids."""
        ...

    @property
    def warnings(self) -> Sequence[str]:
        """What should be known of the data."""
        ...


class Bottom(Protocol):
    """A bottom model without its inputs, which the features of each party decide."""

    def bottom(self, features: Features, cardinalities: Sequence[int] = ()) -> nn.Module:
        """Return a bottom model for these features.

        Parameters
        ----------
        features
            A tensor ``[rows, ...]``, or tensors by name.
        cardinalities
            How many categories each column of codes has, where features come by name.

        Raises
        ------
        ConfigurationError
            If the features have another shape than the model takes.
        """
        ...


class Top(Protocol):
    """A top model without its inputs and outputs, which embeddings and labels decide."""

    def top(self, inputs: int, outputs: int) -> nn.Module:
        """Return a top model that ends in ``outputs`` plain numbers."""
        ...


@dataclass(frozen=True)
class Layers:
    """A multi-layer perceptron without its inputs.

    Parameters
    ----------
    widths
        Outputs of each layer.
    activation
        Follows every layer.
    dropout
        Probability that a component is dropped between layers.
    """

    widths: tuple[int, ...] = defaults.HIDDEN
    activation: str = defaults.ACTIVATION
    dropout: float = 0.0

    def bottom(self, features: Features, cardinalities: Sequence[int] = ()) -> nn.Module:
        """Return a bottom model for these features."""
        if not isinstance(features, Tensor):
            numeric = _numbers("mlp", features, cardinalities)
            tabular: nn.Module = Tabular(
                numeric, cardinalities, self.widths, self.activation, dropout=self.dropout
            )
            return tabular
        if features.dim() != 2:
            return nn.Sequential(nn.Flatten(), self._mlp(features[0].numel(), self.widths))
        return self._mlp(features.shape[1], self.widths)

    def top(self, inputs: int, outputs: int) -> nn.Module:
        """Return a top model that ends in ``outputs`` plain numbers."""
        widths = [*self.widths, outputs]
        return mlp(inputs, widths, self.activation, last="identity", dropout=self.dropout)

    def _mlp(self, inputs: int, widths: Sequence[int]) -> nn.Sequential:
        return mlp(inputs, widths, self.activation, dropout=self.dropout)


@dataclass(frozen=True)
class PolynomialBottom:
    """A ``Polynomial`` without its inputs; what has a shape is flattened.

    Parameters
    ----------
    width
        The width of the embedding.
    degree
        How many powers.
    """

    width: int
    degree: int = 2

    def bottom(self, features: Features, cardinalities: Sequence[int] = ()) -> nn.Module:
        """Return a bottom model for a tensor of features."""
        if not isinstance(features, Tensor):
            raise ConfigurationError(f"polynomial takes a tensor, not {shown(features)}")
        return Polynomial(features[0].numel(), self.width, self.degree)


@dataclass(frozen=True)
class CnnBottom:
    """A ``Cnn`` without its inputs: it takes pictures, of the shape that they have.

    Parameters
    ----------
    outputs
        The width of the embedding.
    channels
        Of each convolution.
    """

    outputs: int
    channels: tuple[int, ...] = (16, 32)

    def bottom(self, features: Features, cardinalities: Sequence[int] = ()) -> nn.Module:
        """Return a bottom model for pictures ``[rows, channels, height, width]``."""
        channels, height, width = _axes("cnn", features, "channels", "height", "width")
        return Cnn((channels, height, width), self.outputs, self.channels)


@dataclass(frozen=True)
class ResNet18Bottom:
    """A ``ResNet18`` without its inputs: it takes pictures, of as many channels as they have.

    Parameters
    ----------
    outputs
        The width of the embedding.
    width
        Channels of the first two blocks.
    norm
        Makes the norm of so many channels, by default ``nn.BatchNorm2d``.
    """

    outputs: int
    width: int = 64
    norm: Callable[[int], nn.Module] = nn.BatchNorm2d

    def bottom(self, features: Features, cardinalities: Sequence[int] = ()) -> nn.Module:
        """Return a bottom model for pictures ``[rows, channels, height, width]``."""
        channels, _, _ = _axes("resnet18", features, "channels", "height", "width")
        return ResNet18(self.outputs, channels, self.width, self.norm)


@dataclass(frozen=True)
class MvcnnBottom:
    """A ``Mvcnn`` without its inputs: it takes views, of as many channels as they have.

    Parameters
    ----------
    outputs
        The width of the embedding.
    grid
        Rows and columns that are left of a view before the linear layer.
    """

    outputs: int
    grid: int = 6

    def bottom(self, features: Features, cardinalities: Sequence[int] = ()) -> nn.Module:
        """Return a bottom model for views ``[rows, views, channels, height, width]``."""
        _, channels, _, _ = _axes("mvcnn", features, "views", "channels", "height", "width")
        return Mvcnn(self.outputs, channels, self.grid)


@dataclass(frozen=True)
class LstmBottom:
    """An ``Lstm`` without its inputs: it takes series, of as many components as they have.

    Parameters
    ----------
    hidden
        Components of the hidden state.
    outputs
        The width of the embedding; without it, that is the last hidden state.
    layers
        How many are stacked.
    dropout
        Probability that a component is dropped between two layers.
    """

    hidden: int
    outputs: int | None = None
    layers: int = 1
    dropout: float = 0.0

    def bottom(self, features: Features, cardinalities: Sequence[int] = ()) -> nn.Module:
        """Return a bottom model for series ``[rows, times, components]``."""
        _, components = _axes("lstm", features, "times", "components")
        return Lstm(components, self.hidden, self.outputs, self.layers, self.dropout)


@dataclass(frozen=True)
class WideAndDeepBottom:
    """A ``WideAndDeep`` without its inputs: it takes numbers and codes by name.

    Parameters
    ----------
    widths
        Outputs of each layer.
    activation
        Follows every layer but the last.
    embedding
        The width of every embedding.
    wide
        Outputs of the linear model; 0 for none.
    dropout
        Probability that a component is dropped between layers.
    sparse_gradients
        Whether the tables' gradients hold the codes of a batch alone.
    """

    widths: tuple[int, ...] = (256, 256)
    activation: str = "relu"
    embedding: int = 16
    wide: int = 1
    dropout: float = 0.0
    sparse_gradients: bool = False

    def bottom(self, features: Features, cardinalities: Sequence[int] = ()) -> nn.Module:
        """Return a bottom model for "numeric" and "categorical" features, or one of them."""
        if isinstance(features, Tensor):
            raise ConfigurationError(
                "wide_and_deep takes features by name, 'numeric' and 'categorical', not "
                f"{shown(features)}; make them by TableTransformer(output='dict'), in a file "
                "features: {output: dict}"
            )
        return WideAndDeep(
            _numbers("wide_and_deep", features, cardinalities),
            cardinalities,
            self.widths,
            self.activation,
            self.embedding,
            self.wide,
            self.dropout,
            self.sparse_gradients,
        )


@dataclass(frozen=True)
class ModuleBottom:
    """A bottom model that a function of somebody's own makes, without its inputs.

    Parameters
    ----------
    make
        Returns the module. If it has an argument ``inputs`` it is given, as that is annotated, the
        number of columns (``int``) or the shape of a row (``tuple[int, ...]``).
    name
        What messages call it.
    settings
        Its other arguments.
    """

    make: Callable[..., nn.Module]
    name: str
    settings: Mapping[str, Any]

    def bottom(self, features: Features, cardinalities: Sequence[int] = ()) -> nn.Module:
        """Return a bottom model for a tensor of features."""
        given: dict[str, Any] = {}
        if "inputs" in inspect.signature(self.make).parameters:
            hints = get_type_hints(self.make.__init__ if isinstance(self.make, type) else self.make)  # type: ignore[misc]  # of the class that it is
            if hints.get("inputs") is int:
                (given["inputs"],) = _axes(self.name, features, "columns")
            elif isinstance(features, Tensor):
                given["inputs"] = tuple(features.shape[1:])
            else:
                raise ConfigurationError(f"{self.name} takes a tensor, not {shown(features)}")
        return _module(self.name, self.make(**given, **self.settings))


@dataclass(frozen=True)
class ModuleTop:
    """A top model that a function of somebody's own makes, without its inputs and outputs.

    Parameters
    ----------
    make
        Returns the module, for ``inputs`` and ``outputs``: how many numbers go in and come out.
    name
        What messages call it.
    settings
        Its other arguments.
    """

    make: Callable[..., nn.Module]
    name: str
    settings: Mapping[str, Any]

    def top(self, inputs: int, outputs: int) -> nn.Module:
        """Return a top model that ends in ``outputs`` plain numbers."""
        return _module(self.name, self.make(inputs=inputs, outputs=outputs, **self.settings))


def _module(name: str, made: Any) -> nn.Module:
    if not isinstance(made, nn.Module):
        raise ConfigurationError(f"{name} makes no torch.nn.Module, but {made!r}")
    return made


@dataclass(frozen=True)
class SparseBottom:
    """A bottom model whose embeddings are kept sparse; see ``Sparse``.

    Parameters
    ----------
    inner
        The bottom model.
    strength
        Of the penalty.
    """

    inner: Bottom
    strength: float

    def bottom(self, features: Features, cardinalities: Sequence[int] = ()) -> nn.Module:
        """Return a bottom model for these features."""
        return nn.Sequential(self.inner.bottom(features, cardinalities), Sparse(self.strength))


@dataclass(frozen=True)
class BoundedBottom:
    """A bottom model whose embeddings are kept within a bound; see ``Bounded``.

    Parameters
    ----------
    inner
        The bottom model.
    bound
        The largest magnitude of a component.
    """

    inner: Bottom
    bound: float

    def bottom(self, features: Features, cardinalities: Sequence[int] = ()) -> nn.Module:
        """Return a bottom model for these features."""
        return nn.Sequential(self.inner.bottom(features, cardinalities), Bounded(self.bound))


@dataclass(frozen=True)
class Blueprint:
    """What models a federation shall have, and who trains them how.

    Parameters
    ----------
    objective
        What is predicted.
    label_holder
        The name of the organisation with the labels.
    holds
        Whose part of the data is the label holder's own; None for none.
    bottom
        Each bottom model without its inputs.
    bottoms
        Bottom models that differ, by organisation: without their inputs, or modules ready made.
    top
        The layers of the top model before its outputs, or a module ready made.
    fusion
        How embeddings become the top model's input.
    optimiser, scheduler
        What every organisation trains with.
    device
        Where models compute.
    seed
        Decides how the models start.
    """

    objective: Objective
    label_holder: str = "label_holder"
    holds: str | None = None
    bottom: Bottom = field(default_factory=Layers)
    bottoms: Mapping[str, Bottom | nn.Module] = field(default_factory=dict)
    top: Top | nn.Module = field(default_factory=lambda: Layers(defaults.TOP))
    fusion: Fusion = field(default_factory=Concat)
    optimiser: OptimiserFactory | None = None
    scheduler: SchedulerFactory | None = None
    device: str = "cpu"
    seed: int = 0


@drawing_apart()
def assemble(data: VerticalData, blueprint: Blueprint) -> Federation:
    """Return the federation that the blueprint describes, over the data.

    Raises
    ------
    ConfigurationError
        If names, widths and models do not fit together.
    DataError
        If the data cannot be trained on.
    """
    b = blueprint
    own = b.holds
    if own is not None and own not in data.features:
        raise ConfigurationError(
            f"label_holder.holds: there is no part {own!r} of the data; "
            f"there are {', '.join(data.features)}"
        )
    if unknown := sorted(set(b.bottoms) - set(data.features)):
        raise ConfigurationError(
            f"there is a bottom model for {unknown[0]!r}, which is no part of the data; "
            f"there are {', '.join(data.features)}"
        )
    others = [name for name in data.features if own is None or name != own]
    check_names([*others, b.label_holder])
    everybody = {
        name: party_of(name, features, data.transformers.get(name), b)
        for name, features in data.features.items()
    }
    parties = [party for name, party in everybody.items() if name != own]
    # In party order, the label holder's own last: as the top model will see them.
    last = [] if own is None else [everybody[own]]
    widths = [embedding_width(p.name, p.bottom, p.features) for p in (*parties, *last)]
    holder = label_holder_of(
        data.labels, data.train, widths, None if own is None else everybody[own], b
    )
    return Federation(
        parties,
        holder,
        data.train,
        data.test,
        b.objective.metrics(),
        data.validation,
        classes=range(data.classes) if isinstance(data.classes, int) else data.classes,
        people=data.people,
        warnings=data.warnings,
    )


def party_of(
    name: str, features: Features, transformer: Transformer | None, blueprint: Blueprint
) -> Party:
    """Return the organisation that has a part of the data, with its bottom model.

    Raises
    ------
    ConfigurationError
        If the model cannot be made for these features.
    """
    bottom = _bottom(name, features, transformer, blueprint)
    return Party(name, features, bottom, transformer=transformer, **_how(blueprint))


def label_holder_of(
    labels: Tensor,
    train_rows: NDArray[Any],
    widths: Sequence[int],
    own: Party | None,
    blueprint: Blueprint,
) -> LabelHolder:
    """Return the label holder, with its models.

    Parameters
    ----------
    labels
        Of all rows.
    train_rows
        Of whose labels loss and top model may know.
    widths
        Of everybody's embeddings, in party order, its own last.
    own
        Its own part of the data, if it has one.
    blueprint
        What its models shall be.

    Raises
    ------
    ConfigurationError
        If the top model cannot be made.
    """
    learned = blueprint.objective.learned(labels[train_rows])
    loss, top = judge_of(learned, widths, blueprint)
    return LabelHolder(
        blueprint.label_holder,
        labels,
        top,
        loss,
        features=None if own is None else own.features,
        bottom=None if own is None else own.bottom,
        transformer=None if own is None else own.transformer,
        learned=learned,
        **_how(blueprint),
    )


def judge_of(
    learned: Mapping[str, Any], widths: Sequence[int], blueprint: Blueprint
) -> tuple[Loss, nn.Module]:
    """Return the loss and the top model as it starts.

    Parameters
    ----------
    learned
        What both know of the training rows' labels; see ``Objective.learned``.
    widths
        Of everybody's embeddings, in party order, the label holder's last.
    blueprint
        What models shall be.

    Raises
    ------
    ConfigurationError
        If the top model cannot be made.
    """
    top = _top(blueprint, blueprint.fusion.width(list(widths)), learned)
    return blueprint.objective.loss(learned), top


def _how(blueprint: Blueprint) -> dict[str, Any]:
    """Return what every organisation trains with."""
    how: dict[str, Any] = {"scheduler": blueprint.scheduler, "device": blueprint.device}
    return how if blueprint.optimiser is None else how | {"optimiser": blueprint.optimiser}


def _bottom(
    name: str, features: Features, transformer: Transformer | None, blueprint: Blueprint
) -> nn.Module:
    wanted = blueprint.bottoms.get(name, blueprint.bottom)
    if isinstance(wanted, nn.Module):
        return wanted
    if isinstance(wanted, type) or not callable(getattr(wanted, "bottom", None)):
        raise ConfigurationError(
            f"the bottom model of {name!r} is {shown(wanted)}, but must be a torch.nn.Module or "
            "have a method bottom(features, cardinalities), as Layers(...) has; of a function that "
            "makes modules take ModuleBottom(function, name, settings)"
        )
    # Its own transformer knows how many categories a column of codes has.
    cardinalities = getattr(transformer, "cardinalities", ())
    # The label holder's own part starts as its own name says, not the part's.
    owner = blueprint.label_holder if name == blueprint.holds else name
    make = lambda: wanted.bottom(features, cardinalities)  # noqa: E731
    return _seeded(f"the bottom model of {name!r}", blueprint.seed, owner, "bottom", make)


def _top(blueprint: Blueprint, inputs: int, learned: Mapping[str, Any]) -> nn.Module:
    top, objective = blueprint.top, blueprint.objective
    if isinstance(top, nn.Module):
        return top
    if isinstance(top, type) or not callable(getattr(top, "top", None)):
        raise ConfigurationError(
            f"the top model is {shown(top)}, but must be a torch.nn.Module or have a method "
            "top(inputs, outputs), as Layers(...) has; of a function that makes modules take "
            "ModuleTop(function, name, settings)"
        )
    layers = top
    made = _seeded(
        "the top model",
        blueprint.seed,
        blueprint.label_holder,
        "top",
        lambda: layers.top(inputs, objective.outputs),
    )
    return objective.finished(made, learned)


def _seeded(
    whose: str, seed: int, name: str, part: str, make: Callable[[], nn.Module]
) -> nn.Module:
    """Make a module whose start depends on the seed and its place alone."""
    with drawing(), torch.random.fork_rng(devices=[]):
        key = StreamKey(seed, name, f"initialisation/{part}", 0)
        torch.manual_seed(key.torch_seed())
        try:
            return make()
        except ConfigurationError as error:
            raise ConfigurationError(f"{whose}: {error}") from None
        except ColonnadeError:
            raise
        except Exception as error:  # a user's function may raise anything, torch where memory ends
            why = f"{whose} cannot be made"
            raise of_the_disk(why, error) or ConfigurationError(
                f"{why}: {first_line(error)}; it must fit its inputs, and into memory"
            ) from error


def _numbers(model: str, features: Mapping[str, Tensor], cardinalities: Sequence[int]) -> int:
    """Return how many numbers a row has, where the codes are those whose cardinalities are told."""
    codes = features["categorical"].shape[1] if "categorical" in features else 0
    if codes != len(cardinalities):
        raise ConfigurationError(
            f"{model} has to know how many categories each of {codes} columns has, and is told of "
            f"{len(cardinalities)}: the transformer that made the features says it by its "
            "cardinalities"
        )
    return features["numeric"].shape[1] if "numeric" in features else 0


def _axes(model: str, features: Features, *names: str) -> tuple[int, ...]:
    """Return the sizes of the axes after the rows, which must be those that are named."""
    if not isinstance(features, Tensor) or features.dim() != 1 + len(names):
        raise ConfigurationError(
            f"{model} takes features of shape [rows, {', '.join(names)}], not {shown(features)}"
        )
    return tuple(features.shape[1:])
