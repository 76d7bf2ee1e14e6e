"""Courses of effects that another course goes through, and does something at each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Generator
from functools import partial
from typing import Any, Generic, TypeVar

from colonnade.effects import Effect

__all__ = ["Through"]

T = TypeVar("T")


class Through(ABC, Generic[T]):
    """A course of effects, each of which is met by this one; what comes of it is the course's.

    Parameters
    ----------
    course
        The effects, and what comes of them.
    """

    def __init__(self, course: Awaitable[T]) -> None:
        self._course = course

    @abstractmethod
    def _met(self, effect: Effect[Any]) -> Generator[Effect[Any], Any, Any]:
        """Return the answer to an effect; ``yield effect`` asks the driver for it."""
        ...

    def __await__(self) -> Generator[Effect[Any], Any, T]:
        """Go through the course, which also hears what its effects fail of."""
        course = self._course.__await__()
        step = partial(course.send, None)
        try:
            while True:
                effect = step()
                try:
                    answer = yield from self._met(effect)
                except Exception as error:
                    step = partial(course.throw, error)
                else:
                    step = partial(course.send, answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # the course's
        finally:
            course.close()
