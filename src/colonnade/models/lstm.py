"""A long short-term memory, the bottom of series in time."""

from __future__ import annotations

from torch import Tensor, nn

from colonnade.annotated import check_arguments
from colonnade.errors import ConfigurationError, DataError

__all__ = ["Lstm"]


class Lstm(nn.Module):
    """Read a series from its beginning to its end, and describe it by what is remembered there.

    With the inputs x_1 ... x_T of a series,

        (s_t, c_t) = LSTM(x_t, s_{t-1}, c_{t-1}),    h = W s_T + b,

    where s_T is the last hidden state of the last layer (Hochreiter and Schmidhuber, "Long
    short-term memory", Neural Computation 9(8), 1997).

    Parameters
    ----------
    inputs
        Components of a series at each time, F.
    hidden
        Components of the hidden state.
    outputs
        The width of the embedding h; without it, h is s_T itself, whose components are between -1
        and 1, as a quantiser of a fixed range wants them.
    layers
        How many LSTMs are stacked, each reading the hidden states of the one before.
    dropout
        Probability that a component of a hidden state is dropped between two layers.

    Raises
    ------
    ConfigurationError
        If a number is out of range, or there is dropout but nothing between two layers.

    Examples
    --------
    >>> import torch
    >>> bottom = Lstm(inputs=19, hidden=16, outputs=8)
    >>> bottom(torch.zeros(4, 48, 19)).shape
    torch.Size([4, 8])
    """

    @check_arguments
    def __init__(
        self,
        inputs: int,
        hidden: int,
        outputs: int | None = None,
        layers: int = 1,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if min(inputs, hidden, layers, 1 if outputs is None else outputs) < 1:
            raise ConfigurationError(
                "an LSTM needs inputs, a hidden state, outputs and layers of 1 or more, not "
                f"{inputs}, {hidden}, {outputs} and {layers}"
            )
        if not 0 <= dropout < 1:
            raise ConfigurationError(f"dropout must be at least 0 and below 1, not {dropout}")
        if dropout and layers == 1:
            raise ConfigurationError(
                "dropout acts between two layers of an LSTM, and this has one; "
                "set dropout to 0, or layers to 2 or more"
            )
        self.inputs = inputs
        self.memory = nn.LSTM(inputs, hidden, layers, batch_first=True, dropout=dropout)
        self.embed = nn.Identity() if outputs is None else nn.Linear(hidden, outputs)

    def forward(self, series: Tensor) -> Tensor:
        """Return embeddings ``[B, outputs]``.

        Parameters
        ----------
        series
            Shape ``[B, T, inputs]``.

        Raises
        ------
        DataError
            If the series have another shape.
        """
        if series.dim() != 3 or series.shape[1] == 0 or series.shape[2] != self.inputs:
            raise DataError(
                f"series must have the shape [rows, times, {self.inputs}], not {list(series.shape)}"
            )
        _, (last, _) = self.memory(series)
        embeddings: Tensor = self.embed(last[-1])
        return embeddings
