"""Numbers of jobs, as FLARE gives them: what is one can be part of a path and of a command.

And how large jobs are: both are asked before anything else of a job is known.
"""

from __future__ import annotations

import re

__all__ = ["LARGEST", "is_job_number"]

LARGEST = 2**24  # bytes of a job's files together

_NUMBER = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_job_number(number: object) -> bool:
    """Return whether a number of a job is such as FLARE gives.

    >>> is_job_number("1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"), is_job_number("../startup")
    (True, False)
    """
    return isinstance(number, str) and bool(_NUMBER.fullmatch(number))
