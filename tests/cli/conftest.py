"""A directory to run commands in."""

from pathlib import Path

import pytest

from tests.cli.shell import Shell


@pytest.fixture
def amends(tmp_path: Path) -> Shell:
    return Shell(tmp_path)
