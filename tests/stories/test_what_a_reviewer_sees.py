"""A reviewer of a landing: whatever a tool did to the tree is counted for the rules, and is to be seen in the diff."""

from pathlib import Path

import pytest

from tests.cli.shell import Shell

SAGA = """
version: v1
saga: tidy
files: {root: tree, land: tidy up, verify: [sh, -c, "test ! -e cache"]}
steps:
  - {id: edit, run: [sh, edit.sh], files: true}
"""
RULES = {
    "large": "changed_lines: {gt: 200}",
    "unread": "binary_files: {gt: 0}",
    "modes": "modes_changed: {gt: 0}",
    "wide": "widest_line: {gt: 500}",
}
LANDING = "topic: amends.changeset.land, phase: forward"
POLICY = "version: v1\ndefault: allow\nrules:\n" + "".join(
    f"  - {{id: {rule}, when: {{{LANDING}, args.{when}}}, decision: require_human}}\n" for rule, when in RULES.items()
)


@pytest.fixture
def amends(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/run.py").write_text("print(1)\n")
    (tmp_path / "tree/key").write_text("secret\n")
    (tmp_path / "tree/key").chmod(0o600)
    (tmp_path / "tidy.yaml").write_text(SAGA)
    (tmp_path / "policy.yaml").write_text(POLICY)
    return shell


@pytest.mark.parametrize(
    ("edit", "rule", "shown"),
    [
        (r"printf '# \377\nsteal()\n' > run.py", "unread", "    |+steal()"),
        ("chmod 666 key", "modes", "    new mode 100666"),
        (r"for i in $(seq 300); do printf 'x=1\r'; done > run.py", "large", r"    +x=1\rx=1\r"),
        (r"head -c 600 /dev/zero | tr '\0' x > run.py", "wide", "    +" + "x" * 600),
    ],
)
def test_a_person_is_asked_and_sees_what_would_land(amends: Shell, edit: str, rule: str, shown: str) -> None:
    (amends.place / "tree/edit.sh").write_text(edit + "\n")
    said = amends("run", "tidy.yaml", "--id", "t", "--policy", "policy.yaml")
    assert said.code == 6, said
    (asked,) = amends("approval", "list", "--json").of_type("approval")
    page = amends("approval", "show", asked["id"])
    assert f"  rule {rule} of policy " in page.out
    assert shown in page.out
    assert "\r" not in page.out
    assert (amends.place / "tree/run.py").read_text() == "print(1)\n"
    assert (amends.place / "tree/key").stat().st_mode & 0o777 == 0o600


def test_a_small_change_of_plain_text_lands_unasked(amends: Shell) -> None:
    (amends.place / "tree/edit.sh").write_text("echo 'print(2)' > run.py\n")
    said = amends("run", "tidy.yaml", "--id", "t", "--policy", "policy.yaml")
    assert said.code == 0, said
    assert (amends.place / "tree/run.py").read_text() == "print(2)\n"
