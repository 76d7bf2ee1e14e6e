"""What FLARE runs at a site that is tried: what Colonnade does, from secrets that are known.

A run whose secrets come from the system repeats nowhere, so here the system's source is one of
zeros: what an organisation draws then hangs on its name alone. Sites allow these classes because
the command that tries them says so; nothing of it is in what others install.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import msgspec

from colonnade.deployment import flare
from colonnade.deployment.engagement import Engagement
from colonnade.deployment.guest import Guest
from colonnade.deployment.training import TrainingTogether
from colonnade.drivers import RunRecord
from colonnade.ledger import Ledger
from colonnade.secure import secrets

__all__ = ["ATTEND", "PRESIDE", "TRACE", "known_secrets"]

ATTEND, PRESIDE = "sites.seats.Attend", "sites.seats.Preside"
TRACE = "trace.json"
"""What each await was given, in the label holder's folder of the run."""


@contextmanager
def known_secrets() -> Iterator[None]:
    """Let all that is drawn from the operating system's source be zeros."""
    with patch.object(secrets, "secrets", SimpleNamespace(token_bytes=bytes)):
        yield


class Traced(TrainingTogether):
    """Training that keeps its trace, where the whole run is known."""

    def conclude(self, role: Any, ledger: Ledger, record: RunRecord | None) -> None:
        super().conclude(role, ledger, record)
        if record is not None:
            trace = self.site.runs / self.job.run / TRACE
            decided = {name: list(course) for name, course in record.trace.decisions.items()}
            trace.write_bytes(msgspec.json.encode(decided))


class TracedGuest(Guest):
    """A guest that keeps a trace."""

    def _engaged(self) -> Engagement:
        return Traced(self.job, self.site, self._label)


class Attend(flare.Attend):
    """A site's part of a job."""

    def execute(self, *given: Any) -> Any:
        with known_secrets(), patch.object(flare, "Guest", TracedGuest):
            return super().execute(*given)


class Preside(flare.Preside):
    """The server's part of a job, where the label holder runs the server."""

    def control_flow(self, *given: Any) -> None:
        with known_secrets(), patch.object(flare, "Guest", TracedGuest):
            super().control_flow(*given)
