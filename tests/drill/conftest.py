from pathlib import Path

import pytest

from tests.cli.shell import Shell

GIVEN = Path(__file__).parent / "given"


@pytest.fixture
def amends(tmp_path: Path) -> Shell:
    """A directory with a module of sagas to drill in it: `desk`."""
    shell = Shell(tmp_path)
    (tmp_path / "desk.py").write_text((GIVEN / "desk.py").read_text(encoding="utf-8"), encoding="utf-8")
    return shell
