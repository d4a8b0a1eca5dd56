"""The examples that the docs name run as their first lines say, and end as they promise."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def printed(name: str, cwd: Path) -> list[str]:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr or done.stderr.startswith("saga "), "nothing but the traceback of what an action raised"
    assert list(cwd.iterdir()) == []
    return done.stdout.splitlines()


def test_an_offboarding_is_put_back_unless_somebody_changed_it_since(tmp_path: Path) -> None:
    lines = printed("offboarding.py", tmp_path)
    first, second = (line for line in lines if line.startswith("=>"))
    assert first == "=> rolled_back; roles {'kim': ['admin', 'billing']}, owners {'plan.txt': 'kim'}"
    assert second == "=> incident; roles {'kim': ['auditor']}, owners {'plan.txt': 'kim'}"
    assert lines[-1] == "incident changed_since: kim has been given auditor since"


def test_a_refund_is_sent_once_and_called_back_when_a_person_refuses_the_mail(tmp_path: Path) -> None:
    lines = printed("refund_agent.py", tmp_path)
    assert sum("probe found that it happened" in line for line in lines) == 1
    assert [line.split("  ")[-1].strip() for line in lines if line.startswith("person")] == [
        "approval requested from 1 person by builtin-irreversible, within 24 h",
        "approval granted by person:kim: Ana is right",
        "approval used",
        "approval requested from 1 person by builtin-irreversible, within 24 h",
        "approval refused by person:kim: this is no address",
    ]
    assert [line for line in lines if line.startswith(("=>", "   "))] == [
        "=> completed: 4900 cents back for A-17",
        "   requests to the bank: 1; paid in all: 4900 cents",
        "=> rolled_back: mail.send (step 4): person:kim refused it: this is no address",
        "   requests to the bank: 2; paid in all: 4900 cents",
    ]
