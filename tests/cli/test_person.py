"""`amends person`, and decisions signed on the command line, from the outside."""

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.shell import Shell
from tests.security.proved import PROVED, new_key, public

TO_COMPLETE = ("--input", '{"name": "Ann"}', "--env", "production", "--actor", "agent:desk")


def enrolled(amends: Shell) -> tuple[Path, str]:
    """Kim's key, and the root of the journal that Kim is enrolled on first."""
    kim = new_key(amends.place, "kim")
    (found,) = amends.here("person", "enrol", "kim", "--ssh-key", "kim.pub", "--json").of_type("key")
    assert found["person"] == "person:kim"
    return kim, found["root"]


def test_the_first_is_enrolled_and_each_later_one_takes_the_signature_of_somebody_enrolled(amends: Shell) -> None:
    kim, root = enrolled(amends)
    new_key(amends.place, "ann", "ecdsa")
    ann = ("person", "enrol", "ann", "--ssh-key", "ann.pub", "--by", "person:kim")
    assert "somebody is enrolled already" in amends.here(*ann).complaint
    said = amends.here(*ann, "--sign-with", str(kim))
    assert said.code == 0
    assert "  decision: enrol\n" in said.err
    listed = amends.here("person", "list", "--json").of_type("key")
    assert [(one["person"], one["kind"]) for one in listed] == [
        ("person:kim", "ssh-ed25519"),
        ("person:ann", "ecdsa-sha2-nistp256"),
    ]
    assert amends.here("person", "show").out.startswith(f"root {root}\n")
    gone = amends.here("person", "revoke", "ann", "--why", "left", "--by", "person:kim", "--sign-with", str(kim))
    assert gone.code == 0
    assert [one["person"] for one in amends.here("person", "list", "--json").of_type("key")] == ["person:kim"]
    last = amends.here("person", "revoke", "kim", "--why", "me too", "--by", "person:kim", "--sign-with", str(kim))
    assert "is the last key" in last.complaint


def test_a_private_key_is_never_enrolled_and_a_kind_that_is_not_verified_is_refused(amends: Shell) -> None:
    kim = new_key(amends.place, "kim")
    line = public(kim)
    kim.with_name("kim.pub").unlink()
    assert "is a private key" in amends.here("person", "enrol", "kim", "--ssh-key", "kim").complaint
    kim.with_name("other.pub").write_text(line.replace("ssh-ed25519", "ssh-rsa", 1))
    assert "cannot be enrolled: RSA" in amends.here("person", "enrol", "kim", "--ssh-key", "other.pub").complaint


def test_a_grant_is_signed_and_what_is_signed_is_shown(amends: Shell) -> None:
    amends.give("office")
    kim, root = enrolled(amends)
    (amends.place / "policy.yaml").write_text(PROVED)
    key = ("--by", "person:kim", "--ssh-key", str(kim))
    assert amends.here("policy", "adopt", "policy.yaml", "--why", "start", *key).code == 0
    assert amends.here("run", "office:leave", "--id", "l-1", *TO_COMPLETE, "--root", root).code == 6
    unsigned = amends.here("approval", "grant", "l-1/2", "--yes", "--by", "person:kim")
    assert "this one is not" in unsigned.complaint
    granted = amends.here("approval", "grant", "l-1/2", "--yes", *key, "--root", root)
    assert granted.code == 0
    assert '  topic: "account.delete"\n' in granted.err
    assert amends.here("resume", "office", "--root", "0" * 64).complaint.startswith("this journal has the root")
    assert amends.here("resume", "office", "--root", root).code == 0
    verified = amends.here("evidence", "verify", "--root", root)
    assert verified.code == 0
    assert "as it was signed" in verified.out


def test_several_are_granted_with_one_signature(amends: Shell) -> None:
    amends.give("office")
    kim, root = enrolled(amends)
    (amends.place / "policy.yaml").write_text(PROVED)
    key = ("--by", "person:kim", "--ssh-key", str(kim))
    assert amends.here("policy", "adopt", "policy.yaml", "--why", "start", *key).code == 0
    for saga in ("l-1", "l-2", "l-3"):
        assert amends.here("run", "office:leave", "--id", saga, *TO_COMPLETE, "--root", root).code == 6
    two = ("approval", "grant", "l-1/2", "l-2/2")
    assert "2 approvals and 1 digests" in amends.here(*two, "--digest", "0" * 64, *key).complaint
    changed = amends.here(*two, "--digest", "0" * 64, "--digest", "0" * 64, *key)
    assert "nothing is decided about the others either" in changed.complaint
    granted = amends.here(*two, "--yes", *key, "--root", root)
    assert granted.code == 0
    assert granted.err.count("amends decision 1\n") == 2
    assert granted.err.count("amends decisions 1\n") == 1
    assert granted.out.count("granted by person:kim") == 2
    refused = amends.here("approval", "refuse", "l-3/2", "l-3/2", "--why", "no", *key, "--root", root)
    assert refused.out.count("refused by person:kim") == 1
    assert "saga l-3 rolled back" in amends.here("resume", "office", "--root", root).out
    verified = amends.here("evidence", "verify", "--root", root, "--json")
    assert (verified.code, '"proved": 4' in verified.out) == (0, True), verified.out


def test_the_doctor_says_whether_names_are_proved_and_the_root_is_pinned(amends: Shell) -> None:
    def seen(*words: str) -> list[tuple[str, str]]:
        said = amends("doctor", "--json", *words)
        return [(one["state"], one["found"]) for one in said.of_type("check") if one["name"] == "roster"]

    assert amends.here("run", "shop:tidy", "--id", "s-1").code == 4
    assert seen() == []
    ((state, found),) = seen("--root", "0" * 64)
    assert (state, "has no roster of people" in found) == ("wrong", True)
    _, root = enrolled(amends)
    ((state, found),) = seen()
    assert (state, "nobody has pinned the root" in found) == ("look", True)
    assert seen("--root", root) == [("ok", "1 key proves a name; the root is the one that was pinned")]
    (amends.place / "amends.toml").write_text(f'root = "{"0" * 64}"\n')
    ((state, found),) = seen()
    assert (state, f"has the root {root}" in found) == ("wrong", True)


@contextmanager
def agent(place: Path, key: Path) -> Generator[str]:
    """The socket of an SSH agent that alone has a key by now: its file is gone."""
    words = ["ssh-agent", "-D", "-a", str(place / "agent")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline().startswith("SSH_AUTH_SOCK=")
            env = {**os.environ, "SSH_AUTH_SOCK": words[-1]}
            subprocess.run(["ssh-add", "-q", str(key)], env=env, check=True, timeout=60)
            key.unlink()
            yield words[-1]
        finally:
            running.terminate()


def test_the_agent_signs_with_a_key_whose_file_is_not_here(amends: Shell) -> None:
    amends.give("office")
    kim, root = enrolled(amends)
    (amends.place / "policy.yaml").write_text(PROVED)
    with agent(amends.place, kim) as socket:
        adopt = ("policy", "adopt", "policy.yaml", "--why", "start", "--by", "person:kim")
        assert amends(*adopt, "--ssh-key", "kim.pub", SSH_AUTH_SOCK=socket).code == 0
        assert amends("run", "office:leave", "--id", "l-1", *TO_COMPLETE, "--root", root).code == 6
        grant = ("approval", "grant", "l-1/2", "--yes", "--by", "person:kim", "--root", root)
        assert "this one is not" in amends(*grant, SSH_AUTH_SOCK="").complaint
        assert "has not signed with kim.pub" in amends(*grant, "--ssh-key", "kim.pub", SSH_AUTH_SOCK="").err
        granted = amends(*grant, SSH_AUTH_SOCK=socket)
        assert granted.code == 0, "the one of Kim's keys that the agent has is found by itself"
        assert "  decision: grant\n" in granted.err
    assert amends("resume", "office", "--root", root).code == 0
    assert "as it was signed" in amends("evidence", "verify", "--root", root).out
