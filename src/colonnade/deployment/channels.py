"""On which of FLARE's channels processes of a job say something to each other."""

from __future__ import annotations

__all__ = ["CHANNELS", "INTRODUCTIONS", "SEALED"]

INTRODUCTIONS, SEALED = "colonnade-introductions", "colonnade-sealed"
CHANNELS = (INTRODUCTIONS, SEALED, "credential_manager")
"""All of them; on the last come FLARE's certificates."""
