"""Whether what a run computes looks at a model that was handed in, and not at the copy it trains.

Each run trains copies. Torch copies a module, what it holds and methods of that; but a function
looks where it did, by its closure or a global name, and no training changes what it sees. So it is
watched, as a copy is tried, which tensors and modules it is that torch computes with.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd
from torch.overrides import TorchFunctionMode

from colonnade.drawing import drawing
from colonnade.errors import ConfigurationError

__all__ = ["looking_at_itself", "looking_at_no_weights"]

_METHODS = "look there by self, in a method, or bind it by functools.partial"


_NO_MODEL = (
    "give it no model; what holds weights down is the optimiser's (weight_decay), and what was "
    "trained is in run.models"
)

_Parts = list[tuple[str, nn.Module | Tensor]]


def looking_at_itself(
    whose: str, module: nn.Module, own: nn.Module
) -> AbstractContextManager[Callable[[Tensor], None]]:
    """Raise ``ConfigurationError`` at the end if a copy, computing meanwhile, looked at its model.

    Yields what is to be given an output: functions of ``torch.jit`` compute unseen, and what can be
    differentiated by their weights tells of them.

    Parameters
    ----------
    whose
        Which model it is: "the bottom model of 'bank'".
    module
        The model that was handed in.
    own
        The copy. What it shares with the model, by a ``__deepcopy__`` of theirs, is its own.

    Examples
    --------
    >>> model, own = nn.Linear(3, 2), nn.Linear(3, 2)
    >>> with looking_at_itself("the top model of 'bank'", model, own):
    ...     output = own(torch.ones(1, 3)) + model.bias
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: the top model of 'bank' looks at 'bias' of the model that is handed in, of which each run trains a copy: look there by self, in a method, or bind it by functools.partial
    """  # noqa: E501 - a message is one line
    shared = {id(part) for part in (*own.modules(), *own.parameters(), *own.buffers())}
    with_modes = [(name, part) for name, part in module.named_modules() if _has_modes(part)]
    parts: _Parts = [*_weights_of(module), *module.named_buffers(), *with_modes]
    return _watched(whose, [each for each in parts if id(each[1]) not in shared], _METHODS)


def looking_at_no_weights(
    whose: str, models: Iterable[nn.Module], copies: Mapping[int, Any] | None = None
) -> AbstractContextManager[object]:
    """Raise ``ConfigurationError`` at the end if what computes meanwhile looked at weights.

    Parameters
    ----------
    whose
        What computes: "the loss of 'bank'".
    models
        The models that were handed in.
    copies
        What it holds copies of, by the ``id`` of what each is of; such are never trained.

    Examples
    --------
    >>> model = nn.Linear(3, 2)
    >>> with looking_at_no_weights("the loss of 'bank'", [model]):
    ...     norm = model.weight.norm()
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: the loss of 'bank' looks at 'weight' of the model that is handed in, of which each run trains a copy: give it no model; what holds weights down is the optimiser's (weight_decay), and what was trained is in run.models
    """  # noqa: E501 - a message is one line
    weights = [each for model in models for each in _weights_of(model)]
    held = [(name, copies[id(p)]) for name, p in weights if id(p) in copies] if copies else []
    return _watched(whose, [*weights, *held], _NO_MODEL)


def _weights_of(module: nn.Module) -> list[tuple[str, Tensor]]:
    """Return what is trained of a module, by name."""
    return [(name, p) for name, p in module.named_parameters() if p.requires_grad]


@contextmanager
def _watched(whose: str, parts: _Parts, remedy: str) -> Iterator[Callable[[Tensor], None]]:
    """Raise ``ConfigurationError`` at the end if what computes meanwhile looked at some parts.

    Other threads wait, as whether torch computes what is compiled is one setting for all of them.
    """
    watch = _Watch({id(part): name for name, part in parts})
    modules = [part for _, part in parts if isinstance(part, nn.Module)]
    handles = [part.register_forward_pre_hook(watch.see_module) for part in modules]
    try:
        with drawing(), _uncompiled(), watch, _here(watch):
            yield watch.see_output
    finally:
        for handle in handles:
            handle.remove()
        if watch.found is not None:
            part = f"{watch.found!r} of the model" if watch.found else "the model"
            raise ConfigurationError(
                f"{whose} looks at {part} that is handed in, of which each run trains a copy: "
                f"{remedy}"
            )


_watching: ContextVar[tuple[_Watch, ...]] = ContextVar("watching", default=())  # of a thread


@contextmanager
def _here(watch: _Watch) -> Iterator[None]:
    """Let it be known that this thread is watched."""
    token = _watching.set((*_watching.get(), watch))
    try:
        yield
    finally:
        _watching.reset(token)


def _uncompiled() -> AbstractContextManager[object]:
    """Let torch compute as it is written, from this call on, what was compiled."""
    if "torch._dynamo" not in sys.modules:  # it is slow to import
        return nullcontext()
    stance: AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
    return stance


class _Watch(TorchFunctionMode):
    """Sees what torch is given, and which of some parts is the first among it."""

    def __init__(self, parts: Mapping[int, str]) -> None:
        super().__init__()
        self._parts = parts
        self.found: str | None = None

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """See what a function of torch's, or a method of a tensor, is called with; call it."""
        if not _asks_for_form(func):
            self._see([*args, *(kwargs or {}).values()])
        return func(*args, **(kwargs or {}))

    def see_module(self, module: nn.Module, given: Any) -> None:
        """See that a module computes, but not for another thread, which may use the model."""
        if self in _watching.get():
            self._see([module])

    def see_output(self, output: Tensor) -> None:
        """See by which tensors an output can be differentiated."""
        nodes, seen = [output.grad_fn], set[Any]()
        while nodes:
            node = nodes.pop()
            if node is not None and node not in seen:
                seen.add(node)
                nodes += [each for each, _ in node.next_functions]
                self._see([getattr(node, "variable", None)])  # of a leaf

    def _see(self, given: Iterable[Any]) -> None:
        for each in given:
            if self.found is not None:
                return
            if isinstance(each, Tensor | nn.Module):
                self.found = self._parts.get(id(each))
            elif isinstance(each, list | tuple):
                self._see(each)


_VALUES = {"data", "grad", "T", "mT", "H", "mH", "real", "imag"}
_FORMS = {"size", "dim", "numel", "is_floating_point", "is_complex", "element_size", "stride"}


def _asks_for_form(func: Callable[..., Any]) -> bool:
    """Whether a function tells of a tensor its shape, device and the like, and no number."""
    name = getattr(func, "__name__", "")
    if name == "__get__":  # of a property
        return getattr(getattr(func, "__self__", None), "__name__", "data") not in _VALUES
    return name in _FORMS


def _has_modes(part: nn.Module) -> bool:
    """Whether a module may compute otherwise in evaluation, by itself."""
    is_torchs = type(part).__module__.startswith("torch.")
    return not is_torchs or isinstance(part, _DropoutNd | nn.RReLU)
