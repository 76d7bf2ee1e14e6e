"""A model together with its optimiser: what an organisation trains and keeps to itself."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from colonnade.drawing import drawing, drawing_by
from colonnade.errors import ConfigurationError
from colonnade.faults import blamed
from colonnade.models.copies import copied
from colonnade.models.draws import drawing_alike
from colonnade.models.modes import evaluating, put_into_training
from colonnade.models.trial import shown

__all__ = [
    "Features",
    "Learner",
    "OptimiserFactory",
    "SchedulerFactory",
    "load_own_state",
    "parameter_count",
    "parameter_vector",
    "put_parameters",
    "put_state",
    "state_of",
    "take",
    "trained_parameters",
    "unshared",
    "versions_of",
]

_STATES = 0  # the seed of what is drawn whenever a state is saved or loaded

Features: TypeAlias = Tensor | Mapping[str, Tensor]
"""Inputs of a bottom model, first axis the rows: a tensor, or several by name."""

OptimiserFactory = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
"""Makes an optimiser, e.g. ``partial(torch.optim.Adam, lr=3e-3)``."""

SchedulerFactory = Callable[[torch.optim.Optimizer], torch.optim.lr_scheduler.LRScheduler]
"""Makes a scheduler, which takes a step an epoch or a round: ``partial(StepLR, step_size=10)``."""


def take(features: Features, rows: NDArray[np.int64]) -> Any:
    """Return the given rows of the features, in the form the bottom model takes.

    They are data, and nobody is to differentiate with respect to them.

    >>> take(torch.arange(6.0).view(3, 2), np.array([2, 0]))
    tensor([[4., 5.],
            [0., 1.]])
    """
    index = torch.from_numpy(rows)
    if isinstance(features, Tensor):
        return features.detach().index_select(0, index)
    return {name: column.detach().index_select(0, index) for name, column in features.items()}


def parameter_count(module: nn.Module) -> int:
    """Return how many numbers ``parameter_vector`` returns.

    >>> parameter_count(nn.Linear(3, 2))
    8
    """
    return sum(p.numel() for p in module.parameters())


def parameter_vector(module: nn.Module) -> Tensor:
    """Return all parameters of a module, one after another, on the CPU; buffers are not among them.

    >>> parameter_vector(nn.Linear(3, 2)).shape
    torch.Size([8])
    """
    parameters = [p.detach().cpu().flatten() for p in module.parameters()]
    return torch.cat(parameters) if parameters else torch.zeros(0)


def put_parameters(module: nn.Module, vector: Tensor) -> None:
    """Give a module the parameters that ``parameter_vector`` returned of one of the same form."""
    with torch.no_grad():
        start = 0
        for p in module.parameters():
            p.copy_(vector[start : start + p.numel()].view_as(p))
            start += p.numel()


def unshared(optimiser: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Give an optimiser copies of its own of what it was made with, as a rate that is a tensor.

    A scheduler writes into that, and whoever made the optimiser makes others with it.

    >>> rate = torch.tensor(0.1)
    >>> optimiser = unshared(torch.optim.SGD(nn.Linear(2, 1).parameters(), lr=rate))
    >>> optimiser.param_groups[0]["lr"] is rate
    False
    """
    for group in optimiser.param_groups:
        group |= {
            key: own.detach().clone() for key, own in group.items() if isinstance(own, Tensor)
        }
    return optimiser


class _Versioned(OrderedDict[str, Any]):
    """A state with what torch notes beside it, where it looks for that."""

    _metadata: Mapping[str, Any]


def trained_parameters(module: nn.Module) -> list[nn.Parameter]:
    """Return what an optimiser of a module is handed."""
    return [p for p in module.parameters() if p.requires_grad]


def load_own_state(whose: str, module: nn.Module) -> None:
    """Let a module load what it saves, as one has that goes on from a checkpoint.

    Parameters
    ----------
    whose
        Which model it is, for the message.
    module
        The module; its optimiser may have been made.

    Raises
    ------
    ConfigurationError
        If it cannot, an optimiser from before would train it no more, or others of its parameters
        are trained.
    """
    there, trained = [*map(id, module.parameters())], [*map(id, trained_parameters(module))]
    with blamed(f"{whose} cannot load what it saves"):
        put_state(module, state_of(module))
    if [*map(id, trained_parameters(module))] == trained:
        return
    if [*map(id, module.parameters())] == there:
        raise ConfigurationError(
            f"{whose} freezes parameters as it loads what it saves, or no longer does, so a run "
            "that goes on from a checkpoint would train others: call requires_grad_ where it is "
            "made, and not where it is loaded"
        )
    raise ConfigurationError(
        f"{whose} has other parameters once it has loaded what it saves, and no optimiser would "
        "train them: let it copy values into those that it has"
    )


@drawing_by(_STATES)
def state_of(module: nn.Module) -> dict[str, Any]:
    """Return what a module saves."""
    return dict(module.state_dict())


@drawing_by(_STATES)
def versions_of(module: nn.Module) -> dict[str, Any]:
    """Return by which version of its class each part of a module saves its state, by its name.

    >>> versions_of(nn.BatchNorm1d(3))
    {'': 2}
    """
    noted: Mapping[str, Any] = getattr(module.state_dict(), "_metadata", {})
    return {part: its.get("version") for part, its in noted.items()}


@drawing_by(_STATES)
def put_state(
    module: nn.Module, state: Mapping[str, Any], versions: Mapping[str, Any] | None = None
) -> None:
    """Give a module what another of its kind saved; no class takes it for that of an older version.

    Parameters
    ----------
    module
        What gets it.
    state
        What ``state_dict`` returned, or a plain dictionary of the same.
    versions
        What ``versions_of`` told where it was saved; by default that was by these classes.
    """
    versions = versions_of(module) if versions is None else versions
    versioned = _Versioned(state)
    versioned._metadata = {part: {"version": version} for part, version in versions.items()}
    module.load_state_dict(versioned)


class Learner:
    """A module, the optimiser of its parameters, and the device that it lives on.

    Inputs and outputs are on the CPU, where codecs and fusion work, and outputs are float32, as
    these have it; only the module's own computation is on its device, and in its own type.

    Parameters
    ----------
    module
        Any torch module; it is moved to the device. Parts of it that are in evaluation mode stay in
        it as it is trained.
    optimiser
        Makes the optimiser of its parameters; a module that is not trained needs none.
    scheduler
        Makes the learning-rate scheduler of that optimiser; None for a constant rate.
    device
        Any torch device, as torch names it.
    width
        Of its outputs, where others count on it.

    Examples
    --------
    >>> from functools import partial
    >>> learner = Learner(nn.Linear(2, 1), partial(torch.optim.SGD, lr=0.1))
    >>> learner(torch.zeros(3, 2), training=True).sum().backward()
    >>> learner.step()
    """

    @drawing()
    def __init__(
        self,
        module: nn.Module,
        optimiser: OptimiserFactory | None = None,
        scheduler: SchedulerFactory | None = None,
        device: str | torch.device = "cpu",
        width: int | None = None,
    ) -> None:
        self.width = width
        self.device = torch.device(device)
        self.module = module.to(self.device)
        put_into_training(self.module)
        self._elsewhere = self.device.type != "cpu"
        parameters = trained_parameters(module)
        with drawing_alike():  # what these draw as they are made
            self.optimiser = unshared(optimiser(parameters)) if optimiser and parameters else None
            self.scheduler = (
                None if scheduler is None or self.optimiser is None else scheduler(self.optimiser)
            )

    def __call__(self, inputs: Any, training: bool) -> Tensor:
        """Apply the module, as for training or (without gradients) as for evaluation.

        Raises
        ------
        ConfigurationError
            If it returns no tensor, or not one of the width that others count on, a row for each
            row.
        """
        mode = nullcontext() if training else evaluating(self.module)
        with drawing(), mode, torch.set_grad_enabled(training):
            output = self.module(_moved(inputs, self.device) if self._elsewhere else inputs)
            self._check(output, inputs)
            if self._elsewhere:
                output = output.cpu()
            if output.dtype is not torch.float32:
                output = output.float()
            if output.is_inference():  # as of who has forbidden torch to train it, and is frozen
                output = output.clone()
        if training and not output.requires_grad:  # nothing of it is trained, and nobody has to ask
            output = output.detach().requires_grad_()
        return output  # type: ignore[no-any-return]  # which was checked

    def _check(self, output: object, inputs: Any) -> None:
        if not isinstance(output, Tensor):
            raise ConfigurationError(
                f"a model must return a tensor, but it returned {shown(output)}"
            )
        if self.width is None:
            return
        rows = len(inputs if isinstance(inputs, Tensor) else next(iter(inputs.values())))
        if output.shape != (rows, self.width):
            raise ConfigurationError(
                f"the bottom model must return embeddings of shape {[rows, self.width]}, as was "
                f"agreed, but it returned {shown(output)}"
            )

    @property
    def learning_rate(self) -> float | None:
        """The scheduled learning rate of the first group of parameters; None without scheduler."""
        if self.scheduler is None or self.optimiser is None:
            return None
        return float(self.optimiser.param_groups[0]["lr"])

    def apart(self) -> Learner:
        """Return what computes alike, trains nothing, and leaves this one's module as it is.

        Raises
        ------
        Exception
            As whatever the module holds may, where it cannot be copied.
        """
        other = copy.copy(self)
        other.module, other.optimiser, other.scheduler = copied(self.module), None, None
        return other

    def step(self) -> None:
        """Let the optimiser take one step along the accumulated gradients, and clear them."""
        if self.optimiser is not None:
            self.optimiser.step()
            self.optimiser.zero_grad(set_to_none=True)

    def advance_schedule(self, seed: int = 0) -> None:
        """Let the scheduler set the next learning rate; what it draws, it draws by the seed."""
        if self.scheduler is not None:
            with drawing_alike(seed):
                self.scheduler.step()

    @drawing_by(_STATES)
    def state_dict(self) -> dict[str, Any]:
        """Return parameters, buffers, and the state of optimiser and scheduler.

        Gradients are in it where an optimiser has left some, as one that adds up several batches.
        """
        gradients = {name: p.grad for name, p in self.module.named_parameters()}
        return {
            "module": state_of(self.module),
            "gradients": {name: own for name, own in gradients.items() if own is not None},
            "optimiser": self.optimiser.state_dict() if self.optimiser else {},
            "scheduler": self.scheduler.state_dict() if self.scheduler else {},
        }

    @drawing_by(_STATES)
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned.

        Raises
        ------
        ConfigurationError
            If the optimiser or the scheduler cannot load what it saved.
        """
        put_state(self.module, state["module"])
        for key, own in (("optimiser", self.optimiser), ("scheduler", self.scheduler)):
            if own is not None:
                with blamed(f"the {key} {type(own).__name__} cannot load what it saved"):
                    # Torch would share the tensors of the state rather than copy them.
                    own.load_state_dict(copy.deepcopy(state[key]))
        gradients = state.get("gradients", {})  # which earlier versions did not save
        for name, p in self.module.named_parameters():
            p.grad = gradients[name].clone().to(p.device) if name in gradients else None


def _moved(inputs: Any, device: torch.device) -> Any:
    if isinstance(inputs, Tensor):
        return inputs.to(device)
    return {name: values.to(device) for name, values in inputs.items()}
