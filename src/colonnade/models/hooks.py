"""Hooks on derivatives of parameters: torch copies none, so a model brings and keeps none."""

from __future__ import annotations

from torch import nn

from colonnade.errors import ConfigurationError

__all__ = ["check_hooks", "unhooked"]

_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")


def check_hooks(whose: str, module: nn.Module) -> None:
    """Raise ``ConfigurationError`` if a module's parameters have hooks, which no copy has.

    ``whose`` says which model it is.

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
