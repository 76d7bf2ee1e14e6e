"""Whether what a run computes looks at a model that was handed in, and not at the copy it trains.

Each run trains copies. Torch copies a module, what it holds and methods of that; but a function
looks where it did, by its closure or a global name, and hooks of parameters are not copied. No
training changes what such a function sees. So it is watched, as a copy is tried, which tensors and
modules it is that torch computes with.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd
from torch.overrides import TorchFunctionMode

from colonnade.errors import ConfigurationError

__all__ = ["check_hooks", "looking_at_copies", "parts_of", "unhooked", "weights_of"]

_METHODS = "look there by self, in a method, or bind it by functools.partial"


def check_hooks(whose: str, module: nn.Module) -> None:
    """Raise ``ConfigurationError`` if a module's parameters have hooks, which no copy has.

    Parameters
    ----------
    whose
        Which model it is: "the bottom model of 'bank'".
    module
        The model.

    Examples
    --------
    >>> model = nn.Linear(3, 2)
    >>> handle = model.bias.register_hook(abs)
    >>> check_hooks("the bottom model of 'bank'", model)
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: the bottom model of 'bank' has a hook on the derivative of 'bias', and each run trains a copy, which torch makes without: let the function that makes the optimiser register it, as that is handed the parameters that are trained
    """  # noqa: E501 - a message is one line
    for name, p in module.named_parameters():
        if any(getattr(p, kind, None) for kind in _HOOKS):
            raise ConfigurationError(
                f"{whose} has a hook on the derivative of {name!r}, and each run trains a copy, "
                "which torch makes without: let the function that makes the optimiser register it, "
                "as that is handed the parameters that are trained"
            )


def unhooked(module: nn.Module) -> nn.Module:
    """Return a module, whose parameters have no hooks any more.

    >>> model = nn.Linear(3, 2)
    >>> handle = model.bias.register_hook(abs)
    >>> check_hooks("the bottom model of 'bank'", unhooked(model))
    """
    for p in module.parameters():
        for kind in _HOOKS:
            if getattr(p, kind, None):
                setattr(p, kind, None)
    return module


_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")


def parts_of(module: nn.Module, but: nn.Module) -> list[tuple[str, nn.Module | Tensor]]:
    """Return what training changes of a module, by name: weights, buffers, and parts with modes.

    What another has too, as a copy that shares some of it by its own ``__deepcopy__``, is left out.

    >>> [name for name, _ in parts_of(nn.Sequential(nn.Linear(3, 2), nn.Dropout()), nn.Module())]
    ['0.weight', '0.bias', '1']
    """
    with_modes = [(name, part) for name, part in module.named_modules() if _has_modes(part)]
    own = {id(part) for part in (*but.modules(), *but.parameters(), *but.buffers())}
    parts = [*weights_of(module), *module.named_buffers(), *with_modes]
    return [(name, part) for name, part in parts if id(part) not in own]


def weights_of(module: nn.Module) -> list[tuple[str, Tensor]]:
    """Return what is trained of a module, by name."""
    return [(name, p) for name, p in module.named_parameters() if p.requires_grad]


@contextmanager
def looking_at_copies(
    whose: str, parts: Iterable[tuple[str, nn.Module | Tensor]], remedy: str = _METHODS
) -> Iterator[None]:
    """Raise ``ConfigurationError`` at the end if what is computed meanwhile looked at these parts.

    Parameters
    ----------
    whose
        What computes: "the bottom model of 'bank'".
    parts
        Of models that were handed in, of which copies are trained, by name.
    remedy
        What to do instead.

    Examples
    --------
    >>> model = nn.Linear(3, 2)
    >>> with looking_at_copies("the loss of 'bank'", weights_of(model), "decay weights"):
    ...     norm = model.weight.norm()
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: the loss of 'bank' looks at 'weight' of the model that is handed in, of which each run trains a copy: decay weights
    """  # noqa: E501 - a message is one line
    named = [*parts]  # which holds what their ids are of
    watch = _Watch({id(part): name for name, part in named})
    compiles = "torch._dynamo" in sys.modules  # which is slow to import
    modules = [part for _, part in named if isinstance(part, nn.Module)]
    handles = [part.register_forward_pre_hook(watch.see_module) for part in modules]
    try:
        with torch.compiler.set_stance("force_eager") if compiles else nullcontext(), watch:
            yield
    finally:
        for handle in handles:
            handle.remove()
        if watch.found is not None:
            part = f"{watch.found!r} of the model" if watch.found else "the model"
            raise ConfigurationError(
                f"{whose} looks at {part} that is handed in, of which each run trains a copy: "
                f"{remedy}"
            )


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
        """See that a module computes."""
        self._see([module])

    def _see(self, given: Iterable[Any]) -> None:
        if self.found is not None:
            return
        for each in given:
            if isinstance(each, Tensor | nn.Module):
                self.found = self._parts.get(id(each)) if self.found is None else self.found
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
