"""What an auditor finds out about content that was removed: who, why, and whether anybody said so."""

from pathlib import Path

from tests.security.removals import FORGET, MARK, STRIP, edit, failed_saga, verdicts


def test_a_year_is_over_and_the_auditor_reads_who_removed_what(tmp_path: Path) -> None:
    shell = failed_saga(tmp_path)
    assert shell("evidence", "export", "-o", "kept.jsonl").code == 0
    pruned = shell("prune", "--older-than", "0s", "--yes", "--by", "system:retention", "--why", "ninety days")
    assert pruned.out == "pruned 2 sagas, 9 entries; left for the next time: 0\n"
    for told in verdicts(shell):
        assert (told.code, "ninety days" in told.out, "system:retention" in told.out) == (0, True, True), told
    alone = shell("evidence", "export", "bad", "-o", "bad.jsonl")
    assert alone.code == 0
    told = shell.python("verify.py", "bad.jsonl", "--key", "@pub")
    assert (told.code, "removed what 5 entries of 1 saga held" in told.out) == (0, True), told
    assert shell.python("verify.py", "kept.jsonl", "--key", "@pub").code == 0, "a bundle from before still proves all"


def test_what_an_older_version_removed_takes_one_word_of_a_person(tmp_path: Path) -> None:
    """Older versions left the digests, and marked the saga; nobody can tell that from a hand in the file."""
    shell = failed_saga(tmp_path)
    edit(shell, STRIP, MARK)
    assert [said.code for said in verdicts(shell)] == [8, 8, 8]
    vouch = ("evidence", "forget", "--already-gone", "--why", "pruned in spring, by 0.0.9", "--yes")
    assert "is not a person" in shell(*vouch, "--by", "agent:desk").complaint
    said = shell(*vouch, "--by", "person:ann")
    assert (said.code, said.out) == (0, "person:ann vouches for what 5 entries of 1 saga held\n")
    for told in verdicts(shell):
        assert (told.code, "vouches for" in told.out, "pruned in spring" in told.out) == (0, True, True), told
    assert shell(*vouch, "--by", "person:ann").out == "person:ann vouches for what 0 entries of 0 sagas held\n"
    for words in (FORGET, (*vouch, "--ended-before", "0m")):
        assert shell(*words).code == 2
