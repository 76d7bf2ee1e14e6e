"""What several tests share."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from postgres import NoServer, Server, running

pytest.register_assert_rewrite("colonnade.testing")

settings.register_profile("without clocks", deadline=None)  # machines are busy with other things
settings.load_profile("without clocks")


def pytest_configure() -> None:
    """Let no collector look through what is imported and collected; and wait for no disk.

    Workers, and all processes that tests start, find one thread of linear algebra each.
    """
    gc.disable()  # none of it is garbage
    os.environ["OMP_NUM_THREADS"] = "1"
    # Thousands of flushes to the disk are waited for, unless the folders of tests are in memory.
    memory = Path("/dev/shm")
    if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2**30:
        tempfile.tempdir = os.environ["TMPDIR"] = str(memory)


def pytest_collection_finish() -> None:
    """From here on there is garbage, but not in what is there."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Compute in one thread: two wait for each other where a machine is busy with other things."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL of this process's own, with the databases ``crm`` and ``sealed``."""
    pytest.importorskip("psycopg")
    with ExitStack() as held:
        try:
            server = held.enter_context(running())
        except NoServer as error:
            pytest.skip(str(error))
        server.run("create database crm", "create database sealed", database="postgres")
        yield server


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train into folders without pictures: for tests of many resumes, about other things."""
    for name in ("draw_run", "write_page"):
        monkeypatch.setattr(f"colonnade.federation.{name}", lambda run, path: None)
