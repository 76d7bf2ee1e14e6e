"""One holder of an open file or folder at a time, among processes; whoever is killed lets go.

On Windows, and on file systems without locks, everybody holds it.
"""

from __future__ import annotations

import sys
from contextlib import suppress

if sys.platform != "win32":
    import fcntl

__all__ = ["locked", "unlock"]


def locked(descriptor: int, *, wait: bool = False) -> bool:
    """Lock what is open, and return whether it is ours; waits for others if that is asked for."""
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks
    return True


def unlock(descriptor: int) -> None:
    """Let others have it, also where forked processes have copies: to close ours would not do."""
    if sys.platform != "win32":
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
