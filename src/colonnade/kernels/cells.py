"""Rows of separated text to codes, numbers and labels, a block of bytes at a time.

A category's code in [1, buckets) is a hash of its bytes as they are written, so it is the same on
every machine: FNV-1a of 64 bits (Fowler, Noll and Vo), begun at a number of the column's own, then
the finaliser of MurmurHash3 (Appleby, 2011), h, and

    code = 1 + ((h >> 32) (buckets - 1) >> 32).

Code 0 is a missing one. The bytes are those of the cell's one form, since 3.0 is 3 where another
program writes the file: a whole number has no point (3. and 3.0 are 3, and -0 is 0), and True and
False, in small letters or capitals, are 1 and 0; all else is as it is written. Which columns have
numerals that no number is written as (007, +5, 2.50, 1e3, 0.0000001, and what has other digits than
the fewest that tell its double) is noted: of these, numbers cannot stand for the text. Missing
cells and labels are compared in that form, too.

A number x is sign(x) log(1 + |x|), or x itself; a missing one is 0. A quote counts where it begins
a cell; within quotes separators and line ends are text, and two quotes are one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

__all__ = [
    "BAD_CELLS",
    "BAD_LABEL",
    "BAD_NUMBER",
    "CATEGORY",
    "LABEL",
    "LOGARITHM",
    "NUMBER",
    "OPEN_QUOTE",
    "SKIPPED",
    "beginning_of_hashes",
    "encode_cells",
    "one_form",
]

SKIPPED, LABEL, NUMBER, LOGARITHM, CATEGORY = range(5)
"""What a column is."""

BAD_CELLS, BAD_LABEL, BAD_NUMBER, OPEN_QUOTE = range(1, 5)
"""What can be wrong with a row."""

_OFFSET, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_MIX_1, _MIX_2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_32, _33, _ONE = np.uint64(32), np.uint64(33), np.uint64(1)
_POWERS = np.array([10.0**n for n in range(23)])  # all that are exact in 53 bits
_EXACT = 2**53
_DIGITS = 18  # of a mantissa; what follows is beyond 53 bits
_LARGEST = 3.4028234e38  # of float32
_SURE = 15  # significant digits that every double keeps
_MOST = 17  # that the shortest writing of a double has
_SMALL = 5  # zeros behind the point of what polars writes with a power, 9.9e-6


@njit(inline="always")
def _hash(text, start, stop, begun):  # type: ignore[no-untyped-def]  # numba infers the types
    h = begun
    for i in range(start, stop):
        h = (h ^ np.uint64(text[i])) * _PRIME
    return h


@njit(inline="always")
def _mixed(h):  # type: ignore[no-untyped-def]
    h = (h ^ (h >> _33)) * _MIX_1
    h = (h ^ (h >> _33)) * _MIX_2
    return h ^ (h >> _33)


@njit(inline="always")
def _number(text, start, stop):  # type: ignore[no-untyped-def]
    """Return a decimal number, and whether it is one that float32 holds."""
    i = start
    negative = text[i] == 45
    if negative or text[i] == 43:
        i += 1
    digits, seen, scale, point = 0, 0, 0, False
    mantissa: Any = np.int64(0)
    while i < stop:
        byte = text[i]
        if 48 <= byte <= 57:
            seen += 1
            if digits < _DIGITS:
                mantissa = mantissa * 10 + (np.int64(byte) - 48)
                digits += mantissa > 0
                scale -= point
            else:
                scale += not point
        elif byte == 46 and not point:
            point = True
        else:
            break
        i += 1
    if seen == 0:
        return 0.0, False
    if i < stop:
        if text[i] != 101 and text[i] != 69:
            return 0.0, False
        i += 1
        down = i < stop and text[i] == 45
        if i < stop and (down or text[i] == 43):
            i += 1
        if i == stop:
            return 0.0, False
        power: Any = np.int64(0)
        while i < stop:
            if not 48 <= text[i] <= 57:
                return 0.0, False
            power = min(power * 10 + (np.int64(text[i]) - 48), np.int64(100_000))
            i += 1
        scale += -power if down else power
    value = float(mantissa)
    if mantissa == 0 or scale == 0:
        pass
    elif mantissa < _EXACT and -22 <= scale <= 22:
        value = value * _POWERS[scale] if scale > 0 else value / _POWERS[-scale]
    else:
        while scale > 0 and value <= _LARGEST:
            step = min(scale, 22)
            value, scale = value * _POWERS[step], scale - step
        while scale < 0 and value > 0.0:
            step = min(-scale, 22)
            value, scale = value / _POWERS[step], scale + step
    return (-value if negative else value), value <= _LARGEST


@njit(inline="always")
def _spelling(text, start, stop, spellings, ends, first, last):  # type: ignore[no-untyped-def]
    """Return which of these spellings a cell is, or -1."""
    for which in range(first, last):
        begin = ends[which - 1] if which else 0
        if ends[which] - begin != stop - start:
            continue
        same = True
        for i in range(stop - start):
            if spellings[begin + i] != text[start + i]:
                same = False
                break
        if same:
            return which
    return -1


@njit(cache=True)
def _truth(text, start, stop):  # type: ignore[no-untyped-def]
    """Return 1 for True and 0 for False, whatever their case, and -1 for all else."""
    if stop - start == 4:
        word, value = (116, 114, 117, 101, 0), 1
    elif stop - start == 5:
        word, value = (102, 97, 108, 115, 101), 0
    else:
        return -1
    for i in range(stop - start):
        if (text[start + i] | 32) != word[i]:
            return -1
    return value


@njit(cache=True)
def _is_shortest(digits, scale):  # type: ignore[no-untyped-def]
    """Return whether the double nearest to digits / 10^scale has no shorter or nearer writing.

    The digits are 16 or 17, of which the last is not 0, and behind the point are scale of them, 1
    to 22. The double is m 2^-k. What the digits are beyond it, a step of the last one and a step of
    m are small multiples of 2^(scale - k - 2), where the last digit counts as 1: so what overflows
    in between is of no account.
    """
    fraction, exponent = math.frexp(float(digits) / _POWERS[scale])
    step = np.int64(1) << np.int64(55 - exponent - scale)
    ulp = np.int64(4)
    for _ in range(scale):
        ulp *= 5
    over, reach = digits * step - np.int64(fraction * _EXACT) * ulp, ulp
    if over < 0 and fraction == 0.5:  # below a power of two doubles lie twice as close
        over, step = 2 * over, 2 * step
        if 2 * over >= -ulp:
            reach = 2 * ulp
    while 2 * over > ulp:  # the quotient of rounded numbers may be off by one
        over -= ulp
    while 2 * over < -ulp:
        over += ulp
    last = digits % 10
    below, above = over - last * step, over + (10 - last) * step
    nearest = 2 * abs(over) + last % 2 <= step  # of two that are as near, the even one
    return nearest and 2 * abs(below) > ulp and 2 * abs(above) > reach


@njit(cache=True)
def _as_a_number(text, first, point, stop):  # type: ignore[no-untyped-def]
    """Return whether a decimal, whose last digit is not 0, is written as its double is."""
    digits, count, zeros = np.int64(0), 0, 0
    for i in range(first, stop):
        if i == point:
            continue
        digits = digits * 10 + (np.int64(text[i]) - 48)
        if digits:
            count += 1
        elif i > point:
            zeros += 1
        if count > _MOST or zeros == _SMALL:
            return False
    return count <= _SURE or _is_shortest(digits, stop - point - 1)


@njit(cache=True)
def _form(text, start, stop):  # type: ignore[no-untyped-def]
    """Return where the one form of a numeral starts and stops, and whether no number has it.

    What is no decimal numeral keeps its bounds.
    """
    i = first = start + (text[start] == 45 or text[start] == 43)
    while i < stop and 48 <= text[i] <= 57:
        i += 1
    point = i
    zeros, last = True, np.uint8(0)
    if i < stop and text[i] == 46:
        i += 1
        while i < stop and 48 <= text[i] <= 57:
            last = text[i]
            zeros = zeros and last == 48
            i += 1
    if point == first and i <= point + 1:
        return start, stop, False
    power = i < stop and (text[i] == 101 or text[i] == 69)
    if power:
        i += 1
        if i < stop and (text[i] == 45 or text[i] == 43):
            i += 1
        if i == stop:
            return start, stop, False
        while i < stop and 48 <= text[i] <= 57:
            i += 1
    if i < stop:
        return start, stop, False
    odd = power or text[start] == 43 or point == first or (point - first > 1 and text[first] == 48)
    if zeros and not power and point > first:
        stop = point
    elif last == 48:
        odd = True
    elif not odd and stop - first > _SMALL + 2:
        odd = not _as_a_number(text, first, point, stop)
    if text[start] == 45 and stop - start == 2 and text[first] == 48:
        start = first
    return start, stop, odd


@njit(cache=True, nogil=True)
def encode_cells(  # type: ignore[no-untyped-def]
    text,
    stop,
    at_end,
    separator,
    kinds,
    places,
    endings,
    begun,
    buckets,
    spellings,
    ends,
    missing,
    scratch,
    numbers,
    codes,
    labels,
    spelled,
    found,
):
    """Encode whole rows until the text or the room for rows ends.

    ``found`` becomes: rows, bytes of them, line ends in them, and of the first wrong row what is
    wrong, in which column, how many cells it has, and where in the text the cell starts and stops;
    then the most line ends that a row has within quotes, and how many are before that row.
    ``spelled`` becomes True where a code's column has a numeral that no number is written as.
    """
    columns = len(kinds)
    row, at, lines = 0, 0, 0
    found[:] = 0
    while row < len(labels) and at < stop:
        cell, i, breaks = 0, at, 0
        problem, column, bad_start, bad_stop = 0, 0, 0, 0
        whole = False
        while True:
            quoted = i < stop and text[i] == 34
            begin = start = i
            if quoted:
                length, closed = 0, -1
                i += 1
                while i < stop:
                    byte = text[i]
                    if closed < 0 and byte == 34:
                        if i + 1 < stop and text[i + 1] == 34:
                            i += 1
                        else:
                            closed = length
                            i += 1
                            continue
                    elif closed >= 0 and (byte == separator or byte == 10):
                        break
                    if byte == 10:
                        breaks += 1
                    scratch[length] = byte
                    length += 1
                    i += 1
                if closed < 0 and at_end:
                    problem, column, whole = OPEN_QUOTE, min(cell, columns - 1), True
                    break
                start, end, source = 0, length, scratch
                if (i >= stop or text[i] == 10) and end > max(closed, 0) and scratch[end - 1] == 13:
                    end -= 1
            else:
                while i < stop and text[i] != separator and text[i] != 10:
                    i += 1
                end, source = i, text
                if (i >= stop or text[i] == 10) and end > start and text[end - 1] == 13:
                    end -= 1
            if i >= stop and not at_end:
                break  # the rest of the cell is in the next block
            over = i >= stop or text[i] == 10
            empty = end == start
            if over and cell == 0 and empty and not quoted and columns > 1:
                whole = True
                break  # an empty line: no cell at all
            kind = kinds[cell] if cell < columns else SKIPPED
            if kind != SKIPPED:
                place = places[cell]
                odd, first, last, one = False, start, end, source
                if not empty and (kind in (CATEGORY, LABEL) or missing > 0):
                    first, last, odd = _form(source, start, end)
                    held = _truth(source, start, end)
                    if held >= 0 and kind != NUMBER and kind != LOGARITHM:
                        scratch[0] = 48 + held  # what was in it has been looked at
                        first, last, one = 0, 1, scratch
                gone = empty or (
                    missing > 0 and _spelling(one, first, last, spellings, ends, 0, missing) >= 0
                )
                if kind == CATEGORY:
                    code = np.int32(0)
                    if not gone:
                        spelled[place] |= odd
                        if endings[cell] > 0 and last - endings[cell] > first:
                            first = last - endings[cell]
                        h = _mixed(_hash(one, first, last, begun[cell]))
                        code = np.int32(_ONE + (((h >> _32) * (buckets[cell] - _ONE)) >> _32))
                    codes[row, place] = code
                elif kind == LABEL:
                    which = _spelling(one, first, last, spellings, ends, missing, len(ends))
                    labels[row] = which - missing
                    if which < 0 and problem == 0:
                        problem, column, bad_start, bad_stop = BAD_LABEL, cell, begin, i
                else:
                    value, fine = 0.0, True
                    if not gone:
                        value, fine = _number(source, start, end)
                        if kind == LOGARITHM:
                            value = math.copysign(math.log1p(abs(value)), value)
                    numbers[row, place] = value
                    if not fine and problem == 0:
                        problem, column, bad_start, bad_stop = BAD_NUMBER, cell, begin, i
            cell += 1
            if over:
                whole = True
                break
            i += 1
        if not whole:
            break
        if cell != columns and problem != OPEN_QUOTE:
            problem, bad_start, bad_stop = BAD_CELLS, 0, 0
        if problem:
            found[3], found[4], found[5] = problem, column, cell
            found[6], found[7] = bad_start, bad_stop
            break
        if breaks > found[8]:
            found[8], found[9] = breaks, lines
        row += 1
        lines += breaks + 1
        at = min(i + 1, stop)
    found[0], found[1], found[2] = row, at, lines


def beginning_of_hashes(column: str) -> int:
    """Return what the hashes of a column begin with: FNV-1a of its name and a zero byte.

    >>> beginning_of_hashes("C1") == beginning_of_hashes("C2")
    False
    """
    h = int(_OFFSET)
    for byte in column.encode() + b"\0":
        h = (h ^ byte) * int(_PRIME) % 2**64
    return h


def one_form(cell: str) -> bytes:
    r"""Return the bytes that a cell of categories or labels is known by.

    >>> [one_form(cell) for cell in ("3.0", "TRUE", "-0", "2.50", "007", "Zürich")]
    [b'3', b'1', b'0', b'2.50', b'007', b'Z\xc3\xbcrich']
    """
    text = np.frombuffer(cell.encode(), dtype=np.uint8)
    if not len(text):
        return b""
    held = _truth(text, 0, len(text))
    if held >= 0:
        return b"01"[held : held + 1]
    start, stop, _ = _form(text, 0, len(text))
    return text[start:stop].tobytes()
