"""What awaits were given, kept as bytes."""

from __future__ import annotations

import tracemalloc

import pytest

from colonnade.drivers.course import Course


@pytest.mark.parametrize("count", [0, 1, 4095, 4096, 4097, 10_000])
def test_a_course_is_what_was_decided_in_its_order(count):
    decided = [
        number % 3 == 0 if number % 2 else (("bank", number), ("shop", 2**52 + number))
        for number in range(count)
    ]
    course = Course(decided[: count // 3])
    course.extend(decided[count // 3 :])
    assert len(course) == count
    assert [*course] == decided == course[:]
    assert course == decided
    assert course == Course(decided)
    assert course != [*decided, True]
    assert course[-2:] == decided[-2:]
    if count:
        assert course[count // 2] == decided[count // 2]
        assert course != [*decided[:-1], ()]


def test_a_message_taken_takes_little_memory():
    tracemalloc.start()
    try:
        course = Course()
        before = tracemalloc.get_traced_memory()[0]
        for number in range(100_000):
            course.append((("bank", number),))
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 16 * 100_000
