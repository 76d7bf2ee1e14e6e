"""Whether modules can be trained: two steps of a copy of each, before any of a run.

What a module returns in training may be another thing than in evaluation, nothing may flow back
through it, and what it keeps of one batch may be in the way of the next. It is given two rows; one
that takes no such batch in training is not judged by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from colonnade.errors import ConfigurationError
from colonnade.models.copies import copied
from colonnade.models.learner import trained_parameters
from colonnade.models.lookbacks import looking_at_itself
from colonnade.models.modes import put_into_training
from colonnade.models.trial import shown
from colonnade.telling import first_line

__all__ = ["check_bottom_learns", "check_top_learns"]


def check_bottom_learns(name: str, bottom: nn.Module, rows: Any, width: int | None) -> None:
    """Raise ``ConfigurationError`` unless a bottom model can be trained by its embeddings.

    In training these must be what they are in evaluation, and where there are parameters to train a
    derivative must reach some of them.

    Parameters
    ----------
    name
        Whose it is.
    bottom
        The model; a copy is tried.
    rows
        Two rows of its features.
    width
        Of its embeddings; None where that is not known.

    Examples
    --------
    >>> check_bottom_learns("bank", nn.Linear(3, 4), torch.ones(2, 3), width=4)
    >>> check_bottom_learns("bank", nn.Linear(3, 4), torch.ones(2, 3), width=5)
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: the bottom model of 'bank' must return embeddings of shape [2, 5] for 2 rows in training, but it returned float32 of shape [2, 4]
    """  # noqa: E501 - a message is one line
    whose = f"the bottom model of {name!r}"

    def check(output: Any) -> None:
        wide = output.shape[1:] if isinstance(output, Tensor) else ()
        if len(wide) != 1 or len(output) != 2 or width not in (None, *wide):
            wanted = f"[2, {'width' if width is None else width}]"
            raise ConfigurationError(
                f"{whose} must return embeddings of shape {wanted} for 2 rows in training, but it "
                f"returned {shown(output)}"
            )

    tried = _stepped(whose, bottom, lambda: rows, check)
    if tried is None:
        return
    trained = trained_parameters(tried)
    if trained and all(p.grad is None for p in trained):
        raise ConfigurationError(
            f"{whose} has parameters to train, and no derivative reaches any of them from its "
            "embeddings: compute these without detach(), no_grad, inference_mode or numpy, and "
            "checkpoint with use_reentrant=False; or freeze it by requires_grad_(False)"
        )


def check_top_learns(name: str, top: nn.Module, rows: int, width: int) -> None:
    """Raise ``ConfigurationError`` unless a top model can be trained, step after step.

    In training it must return a tensor with as many rows as it is given, which are ``rows`` of
    fused embeddings ``width`` wide.

    >>> check_top_learns("bank", nn.Linear(3, 2), rows=2, width=3)
    """
    whose = f"the top model of {name!r}"

    def check(output: Any) -> None:
        if not isinstance(output, Tensor) or output.shape[:1] != (rows,):
            raise ConfigurationError(
                f"{whose} must return predictions of shape [rows, ...] in training, but for {rows} "
                f"rows it returned {shown(output)}"
            )

    _stepped(whose, top, lambda: torch.zeros(rows, width, requires_grad=True).clone(), check)


def _stepped(
    whose: str, module: nn.Module, inputs: Callable[[], Any], check: Callable[[Any], None]
) -> nn.Module | None:
    """Return a copy of a module that went forth and back twice; None if it takes no such batch."""
    own = copied(module).cpu()
    put_into_training(own)
    with looking_at_itself(whose, module, own) as look_at:

        def check_and_look(output: Any) -> None:
            check(output)
            look_at(output)

        return _after_two_steps(whose, own, inputs, check_and_look)


def _after_two_steps(
    whose: str, own: nn.Module, inputs: Callable[[], Any], check: Callable[[Any], None]
) -> nn.Module | None:
    handed_over = [*own.parameters()]
    for step in ("", " a second time"):
        try:
            with torch.enable_grad():
                output = own(inputs())
        except Exception:
            return None
        check(output)
        if not output.requires_grad:
            continue
        try:
            torch.autograd.backward(output, torch.ones_like(output))
        except Exception as error:  # a user's module may raise anything
            raise ConfigurationError(
                f"{whose} cannot be differentiated{step}: {first_line(error)}; let it detach() "
                "what it keeps of one batch for the next"
            ) from error
    if not {*map(id, trained_parameters(own))} <= {*map(id, handed_over)}:
        raise ConfigurationError(
            f"{whose} has other parameters once it has computed, and no optimiser would train "
            "them: let it copy values into those that it has"
        )
    return own
