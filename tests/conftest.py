"""What several tests share."""

from __future__ import annotations

import pytest


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train into folders without pictures: for tests of many resumes, about other things."""
    for name in ("draw_run", "write_page"):
        monkeypatch.setattr(f"colonnade.federation.{name}", lambda run, path: None)
