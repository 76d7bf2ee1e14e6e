"""FLARE's operator in a process of its own: who is there, a job submitted, how it stands, its end.

    python -m colonnade.deployment.operator KIT

It takes a question a line from its standard input, as JSON, and answers with a line. FLARE prints,
keeps threads and leaves connections open where one could not be made; all of that ends with this
process, and whoever asks has none of it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nvflare.fuel.flare_api.flare_api import new_secure_session

__all__ = ["Operator", "main"]


class Operator:
    """Answers questions of a federation.

    Parameters
    ----------
    kit
        The operator's startup kit, called by the operator's name.
    """

    def __init__(self, kit: Path) -> None:
        self._kit = kit
        self._session: Any = None

    def there(self) -> list[str]:
        """Return which sites are connected; none where the server is not there itself."""
        try:
            if self._session is None:
                self._session = new_secure_session(self._kit.name, str(self._kit), timeout=5.0)
            return [client.name for client in self._session.get_system_info().client_info]
        except Exception:  # it is not there yet, and says so in many ways
            return []

    def submit(self, job: str) -> str:
        """Submit the job in a folder; return its number."""
        return str(self._session.submit_job(job))

    def status(self, number: str) -> str:
        """Return how a job stands, in FLARE's words."""
        return str(self._session.get_job_meta(number).get("status"))

    def abort(self, number: str) -> str:
        """End a job; return what FLARE says."""
        return str(self._session.abort_job(number))


def main() -> None:
    """Answer what is asked, until nothing more is."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what FLARE prints goes to the log
    operator = Operator(Path(sys.argv[1]))
    known: dict[str, Callable[..., object]] = {
        "there": operator.there,
        "submit": operator.submit,
        "status": operator.status,
        "abort": operator.abort,
    }
    for line in sys.stdin:
        question, *given = json.loads(line)
        try:
            answer = {"answer": known[question](*given)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    os._exit(0)  # FLARE's threads would go on


if __name__ == "__main__":
    main()
