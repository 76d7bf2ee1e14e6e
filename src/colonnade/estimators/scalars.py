"""Parameters that a search over an array of numpy sets, as Python's own numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["plain"]


def plain(value: Any) -> Any:
    """Return a scalar of numpy as Python's, and any other value as it is.

    >>> plain(np.int64(10)), plain("auto"), plain(None)
    (10, 'auto', None)
    """
    return value.item() if isinstance(value, np.generic) else value
