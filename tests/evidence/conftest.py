"""A place in memory for files that are copied often."""

import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest


@pytest.fixture
def ram_path() -> Generator[Path]:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)
