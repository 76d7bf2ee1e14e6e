"""What the parts of a method report, put together: no name twice, and none that is taken."""

from __future__ import annotations

from collections.abc import Mapping

from colonnade.errors import LocalProtocolError

__all__ = ["reported"]

_TAKEN = {"round", "epoch", "train_loss", "learning_rate"}
_TAKEN |= {"organisation", "seconds", "seconds_evaluation"}
_TAKEN |= {"bytes_up", "bytes_down", "bytes_between"}
_OF_METRICS = ("validation_", "test_")


def reported(*parts: Mapping[str, float]) -> dict[str, float]:
    """Return all that parts report.

    Raises
    ------
    LocalProtocolError
        If two report by one name, or one by a name of the history's own.

    Examples
    --------
    >>> reported({"missing_bank": 2}, {"local_steps": 5})
    {'missing_bank': 2, 'local_steps': 5}
    >>> reported({"round": 3})
    Traceback (most recent call last):
    colonnade.errors.LocalProtocolError: a part reports 'round', which is the history's own: report it by another name
    """  # noqa: E501 - a message is one line
    found: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            if name in _TAKEN or name.startswith(_OF_METRICS):
                raise LocalProtocolError(
                    f"a part reports {name!r}, which is the history's own: report it by another "
                    "name"
                )
            if name in found:
                raise LocalProtocolError(f"two parts report {name!r}: call one of them otherwise")
            found[name] = value
    return found
