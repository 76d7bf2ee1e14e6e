"""What a codec returned, if a codec may: a codec of somebody's own is named where it may not.

Without it, what is not bytes would be told of as a fault of whoever sent it, and a row too few, or
NaN, of the training that it spoils.
"""

from __future__ import annotations

import torch
from torch import Tensor

from colonnade.codecs import Codec
from colonnade.errors import ConfigurationError
from colonnade.models.finite import all_finite
from colonnade.streams import StreamKey

__all__ = ["decoded", "encoded"]


def encoded(codec: Codec, x: Tensor, key: StreamKey, saliency: Tensor | None = None) -> bytes:
    """Return the encoding of ``x``.

    Raises
    ------
    ConfigurationError
        If the codec returns anything but bytes.
    """
    body = codec.encode(x, key, saliency)
    if not isinstance(body, bytes):
        raise _broken(codec, "encode", type(body).__name__, "bytes")
    return body


def decoded(codec: Codec, body: bytes, shape: tuple[int, int], key: StreamKey) -> Tensor:
    """Return what decodes from ``body``.

    Raises
    ------
    ConfigurationError
        If the codec returns anything but finite float32 of ``shape``.
    """
    values = codec.decode(body, shape, key)
    due = f"a tensor of {shape[0]} x {shape[1]} finite float32"
    if not isinstance(values, Tensor):
        raise _broken(codec, "decode", type(values).__name__, due)
    if values.shape != shape or values.dtype != torch.float32:
        size = " x ".join(map(str, values.shape)) or "a single"
        raise _broken(codec, "decode", f"{size} {str(values.dtype).removeprefix('torch.')}", due)
    if not all_finite(values):
        raise _broken(codec, "decode", "NaN or infinite numbers", due)
    return values


def _broken(codec: Codec, method: str, returned: str, due: str) -> ConfigurationError:
    return ConfigurationError(
        f"{type(codec).__name__}.{method} returned {returned}, and is to return {due}; "
        "colonnade.testing.codecs tells whether a codec keeps its contract"
    )
