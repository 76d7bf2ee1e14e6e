"""How often and how long a service answered, as Prometheus reads it."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

__all__ = ["PLAIN_TEXT", "Measured"]

PLAIN_TEXT = CONTENT_TYPE_LATEST
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Measured:
    """What is measured of one service; nothing of it says who was asked for.

    Examples
    --------
    >>> measured = Measured()
    >>> measured.answered("/predict", 200, 0.02)
    >>> measured.predicted(3)
    >>> "colonnade_predicted_rows_total 3.0" in measured.as_text()
    True
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "colonnade_requests",
            "Requests that were answered.",
            ["path", "status"],
            registry=self._registry,
        )
        self._rows = Counter(
            "colonnade_predicted_rows",
            "Rows that were predicted for requests.",
            registry=self._registry,
        )
        self._seconds = Histogram(
            "colonnade_request_seconds",
            "Seconds from a request to its answer.",
            ["path"],
            buckets=_SECONDS,
            registry=self._registry,
        )

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def predicted(self, rows: int) -> None:
        """Count rows."""
        self._rows.inc(rows)

    def as_text(self) -> str:
        """Return all of it."""
        return generate_latest(self._registry).decode()
