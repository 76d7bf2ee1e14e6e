"""What may quote a table, and so stays in files of the site: why a run failed, what was noted.

Logs are read by others, too: by who runs the computers, or a server that collects them. So they
say only where more is.
"""

from __future__ import annotations

import os
import stat
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from colonnade.errors import DataWarning
from colonnade.telling import named

__all__ = ["BESIDE", "KEPT", "Kept"]

KEPT = "; more is in "
"""After this a log of a site names the file that says more."""

BESIDE = (".failure.txt", ".notes.txt")
"""What follows a run's name in those of the files beside it."""

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # for whoever reads a pipe


class Kept:
    """Files beside the runs of a site, which only their owner reads.

    Parameters
    ----------
    runs
        The folder of the site's runs.
    run
        Which run they are about.
    """

    def __init__(self, runs: Path, run: str) -> None:
        self.failure, self.notes = (runs / f"{run}{beside}" for beside in BESIDE)

    def fail(self, error: BaseException) -> None:
        """Write an error down: in a line what it says, then where in the program that was."""
        trace = "".join(traceback.format_exception(error))
        self._write(self.failure, f"{named(error, whole=True)}\n\n{trace}", os.O_TRUNC)

    @contextmanager
    def noting(self, say: Callable[[str], None]) -> Iterator[None]:
        """Write down what is noted of tables meanwhile, and say where the first time."""
        with warnings.catch_warnings():
            shown, said = warnings.showwarning, list[Path]()

            def note(message: Warning | str, category: type[Warning], *where: Any) -> None:
                if not issubclass(category, DataWarning):
                    shown(message, category, *where)
                    return
                if not said:
                    said.append(self.notes)
                    say(f"something should be known of the tables{KEPT}{self.notes}")
                self._write(self.notes, f"{message}\n", os.O_APPEND)

            warnings.showwarning = note  # type: ignore[assignment]  # of more arguments
            yield

    @staticmethod
    def _write(file: Path, text: str, how: int) -> None:
        """Write to a file; a disk that does not take it keeps nobody from anything."""
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            opened = os.open(file, os.O_WRONLY | os.O_CREAT | how | _NO_LINK | _NO_WAIT, 0o600)
            with os.fdopen(opened, "w", encoding="utf-8", errors="backslashreplace") as written:
                if stat.S_ISREG(os.fstat(opened).st_mode):
                    if hasattr(os, "fchmod"):  # where it was there, its mode was another's choice
                        os.fchmod(opened, 0o600)
                    written.write(text)
        except OSError:
            return
