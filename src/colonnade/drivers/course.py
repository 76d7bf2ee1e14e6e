"""What the awaits of a role were given, in little memory: there are several in each round."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import eq
from typing import overload

import msgspec

__all__ = ["Course", "Decision"]

Decision = bool | tuple[tuple[str, int], ...]
"""Of a ``Ready`` whether it was; of a ``Receive`` the (sender, sequence) of what it took."""

_TOGETHER = 4096  # that are packed together

_unpacked = msgspec.msgpack.Decoder(list[Decision]).decode


class Course(Sequence[Decision]):
    """Decisions in their order, of which older ones are kept as bytes.

    One of a message takes some ten bytes, where Python's own objects take more than a hundred.

    Parameters
    ----------
    decisions
        Those that there are.

    Examples
    --------
    >>> course = Course([True, (("bank", 0), ("shop", 0))])
    >>> course.append(False)
    >>> len(course), course[1], course == [True, (("bank", 0), ("shop", 0)), False]
    (3, (('bank', 0), ('shop', 0)), True)
    """

    def __init__(self, decisions: Iterable[Decision] = ()) -> None:
        self._packed: list[bytes] = []
        self._newest: list[Decision] = []
        self.extend(decisions)

    def append(self, decision: Decision) -> None:
        """Add one at the end."""
        self._newest.append(decision)
        if len(self._newest) == _TOGETHER:
            self._packed.append(msgspec.msgpack.encode(self._newest))
            self._newest = []

    def extend(self, decisions: Iterable[Decision]) -> None:
        """Add some at the end."""
        for decision in decisions:
            self.append(decision)

    def __len__(self) -> int:
        return _TOGETHER * len(self._packed) + len(self._newest)

    def __iter__(self) -> Iterator[Decision]:
        return chain(chain.from_iterable(map(_unpacked, self._packed)), self._newest)

    @overload
    def __getitem__(self, at: int) -> Decision: ...
    @overload
    def __getitem__(self, at: slice) -> list[Decision]: ...
    def __getitem__(self, at: int | slice) -> Decision | list[Decision]:
        return [*self][at]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]  # it grows
