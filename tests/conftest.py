"""What several tests share."""

from __future__ import annotations

import pytest
import torch

pytest.register_assert_rewrite("colonnade.testing")


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Compute in one thread: two wait for each other where a machine is busy with other things."""
    torch.set_num_threads(1)


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train into folders without pictures: for tests of many resumes, about other things."""
    for name in ("draw_run", "write_page"):
        monkeypatch.setattr(f"colonnade.federation.{name}", lambda run, path: None)
