"""What several tests share."""

from __future__ import annotations

import gc

import pytest
import torch

pytest.register_assert_rewrite("colonnade.testing")


def pytest_configure() -> None:
    """Let no collector look through what is being imported and collected: none of it is garbage."""
    gc.disable()


def pytest_collection_finish() -> None:
    """From here on there is garbage, but not in what is there."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Compute in one thread: two wait for each other where a machine is busy with other things."""
    torch.set_num_threads(1)


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train into folders without pictures: for tests of many resumes, about other things."""
    for name in ("draw_run", "write_page"):
        monkeypatch.setattr(f"colonnade.federation.{name}", lambda run, path: None)
