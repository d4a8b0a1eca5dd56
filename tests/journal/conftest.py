"""Places for journals."""

import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest


@pytest.fixture
def ram_path() -> Generator[Path]:
    """A directory in memory, where there is one: for tests that open hundreds of files and simulate their own disk."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)
