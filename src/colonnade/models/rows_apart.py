"""Whether a model keeps the rows of a batch apart, as every account of single rows takes it to."""

from __future__ import annotations

from torch import nn

from colonnade.errors import ConfigurationError
from colonnade.models.copies import copied
from colonnade.models.modes import put_into_training

__all__ = ["check_rows_apart"]

_BatchNorm = nn.modules.batchnorm._BatchNorm


def check_rows_apart(whose: str, model: nn.Module, reaches: str) -> None:
    """Raise ``ConfigurationError`` if a model has batch normalisation that looks at its batch.

    One that stays in evaluation mode as the model is trained, and has statistics to go by, does
    not. Whether modules of the user's own mix rows is not known.

    Parameters
    ----------
    whose
        Which model it is: "the top model".
    model
        The model.
    reaches
        What would reach what of other rows: "a label reaches the derivatives".

    Examples
    --------
    >>> check_rows_apart("the model", nn.Sequential(nn.GroupNorm(2, 4)), "a row reaches all")
    """
    if not any(isinstance(part, _BatchNorm) for part in model.modules()):
        return
    own = copied(model)
    put_into_training(own)
    for name, part in own.named_modules():
        if isinstance(part, _BatchNorm) and (part.training or not part.track_running_stats):
            raise ConfigurationError(
                f"{whose} has batch normalisation ({name or 'itself'}), by which {reaches} of "
                "other rows of its batch, more than noise on its own hides: take nn.GroupNorm or "
                "nn.LayerNorm in its place"
            )
