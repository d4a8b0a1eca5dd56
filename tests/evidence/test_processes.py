"""Several programs write and sign one journal, and one of them is killed: what is there verifies all the same."""

import asyncio
from pathlib import Path

import pytest

from amends.addresses import open_journal
from amends.clock import SystemClock
from amends.evidence.sign.keys import KEY, KEY_FILE
from amends.evidence.verify.examine import VerificationReport
from amends.evidence.verify.verify import verify_journal
from tests.journal.test_processes import Program


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY, raising=False)
    monkeypatch.delenv(KEY_FILE, raising=False)


async def verified(path: Path) -> tuple[VerificationReport, int, int]:
    journal = await open_journal(str(path), SystemClock())
    try:
        checkpoints = [one.size async for one in journal.tree_heads()]
        return await verify_journal(journal), len(checkpoints), len(await journal.signers())
    finally:
        await journal.close()


def test_programs_that_write_at_once_sign_one_journal_by_one_key(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    programs = [Program("append_signed", path, name, 40) for name in ("a", "b", "c")]
    for program in programs:
        assert program.listen() == "ready"
    for program in programs:
        program.go_on()
    for program in programs:
        assert program.end()[-1] == "40"
    report, checkpoints, signers = asyncio.run(verified(path))
    assert (report.conclusion, len(report.covered), signers) == ("covered", 360, 1)
    assert 40 <= checkpoints <= 120


def test_what_a_killed_program_left_is_covered_or_unattested(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    told = 0
    for turn in range(6):
        program = Program("append_signed", path, f"k{turn}", 0)
        assert program.listen() == "ready"
        program.go_on()
        for _ in range(1 + 3 * turn):
            program.listen()
        said = program.kill()
        told += 1 + 3 * turn + len(said)
        report, _, signers = asyncio.run(verified(path))
        assert not len(report.altered)
        assert not len(report.missing)
        assert (report.troubles, signers) == ([], 1)
        assert len(report.covered) >= 3 * told - 3  # the last line that was heard may be half a line
        assert len(report.unattested) <= 2
