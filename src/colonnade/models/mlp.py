"""Multi-layer perceptrons, the bottoms and tops of most experiments."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from colonnade.annotated import check_arguments
from colonnade.errors import ConfigurationError

__all__ = ["ACTIVATIONS", "mlp"]

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "identity": nn.Identity,
    "relu": nn.ReLU,
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "gelu": nn.GELU,
}


@check_arguments
def mlp(
    inputs: int,
    widths: Sequence[int],
    activation: str = "relu",
    last: str | None = None,
    dropout: float = 0.0,
) -> nn.Sequential:
    """Return layers x -> act(W x + b), one for each of ``widths``.

    Parameters
    ----------
    inputs
        Components of a flat input row.
    widths
        Outputs of each layer.
    activation
        Follows every layer but the last: identity, relu, sigmoid, tanh or gelu.
    last
        Follows the last layer; the same as ``activation`` when not given.
    dropout
        Probability that a component is dropped after each activation but the last.

    Raises
    ------
    ConfigurationError
        If there is no layer, or a number is out of range.

    Examples
    --------
    >>> mlp(196, [128], activation="sigmoid")
    Sequential(
      (0): Linear(in_features=196, out_features=128, bias=True)
      (1): Sigmoid()
    )
    """
    if not widths or min(widths) < 1 or inputs < 1:
        raise ConfigurationError(f"an mlp needs layers of width 1 or more, not {list(widths)}")
    if not 0 <= dropout < 1:
        raise ConfigurationError(f"dropout must be at least 0 and below 1, not {dropout}")
    layers: list[nn.Module] = []
    for index, (width_in, width_out) in enumerate(zip((inputs, *widths), widths, strict=False)):
        is_last = index == len(widths) - 1
        name = (last or activation) if is_last else activation
        if name not in ACTIVATIONS:
            raise ConfigurationError(
                f"activation {name!r} is unknown; there are {', '.join(ACTIVATIONS)}"
            )
        layers.append(nn.Linear(width_in, width_out))
        if name != "identity":
            layers.append(ACTIVATIONS[name]())
        if dropout and not is_last:
            layers.append(nn.Dropout(dropout))
    return nn.Sequential(*layers)
