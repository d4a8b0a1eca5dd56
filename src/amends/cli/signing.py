"""Signing a decision: by `ssh-keygen -Y sign`, with a key file, or with one that the SSH agent or hardware holds.

The key itself never comes here. What is signed is shown first, on stderr, as it is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from amends.cli import config
from amends.core.state.deciders import normal
from amends.errors import InputError, ProofError
from amends.text import visible

if TYPE_CHECKING:  # to look at a saga, nothing is imported that drives one
    from subprocess import CompletedProcess

    from amends.evidence.proof.roster import Roster
    from amends.runtime.drive.roster import Proof

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
_PATIENCE_S: Final = 120


def with_root(command: F) -> F:
    """The option --root, of commands that act on what a journal says, or judge it."""
    return click.option(
        "--root",
        metavar="HASH",
        envvar="AMENDS_ROOT",
        show_envvar=True,
        expose_value=False,
        is_eager=True,
        callback=_pin,
        help="The root of the roster, as `amends person show` tells it: a journal with another one is refused, and "
        "every decision has to be signed.",
    )(command)


def _pin(context: click.Context, parameter: click.Parameter, root: str | None) -> None:  # noqa: ARG001 - as click calls it
    config.pin(root)


def with_signature(command: F) -> F:
    """The options by which a decision is signed."""
    key = click.option(
        "--ssh-key",
        metavar="FILE",
        envvar="AMENDS_SSH_KEY",
        show_envvar=True,
        help="Sign with this key: a private one, or a public one whose private half the SSH agent has.",
    )
    return key(with_root(command))


def signed_with(file: str) -> Proof:
    """A proof by a key's file: it signs the text that it is called with; one that lists others is shown with them."""
    from amends.evidence.proof.statement import StatementList

    def sign(text: str) -> str:
        for each in text.statements if isinstance(text, StatementList) else ():
            _show("what is signed, as a part of the list below:", each)
        _show("what is signed:", text)
        return _sign(file, text)

    return sign


def _show(head: str, text: str) -> None:
    click.echo(head, err=True)
    for line in text.split("\n"):
        click.echo(f"  {visible(line)}", err=True)


async def proved(
    decide: Callable[[Proof | None], Awaitable[T]],
    roster: Callable[[], Awaitable[Roster]],
    *,
    who: str,
    ssh_key: str | None,
) -> T:
    """A decision, signed with the key that is named; else, where it has to be signed, with one of the agent's."""
    if ssh_key is not None:
        return await decide(signed_with(ssh_key))
    try:
        return await decide(None)
    except ProofError:
        agents = _agent_keys()
        keys = [one.key.line for one in (await roster()).living() if normal(one.person) == normal(who)]
        line = next((line for line in keys if line in agents), None)
        if line is None:
            raise
    from tempfile import TemporaryDirectory  # few need it, and whoever looks at a saga waits for imports

    with TemporaryDirectory() as folder:
        public = Path(folder) / "key.pub"
        public.write_text(f"{line}\n")
        return await decide(signed_with(str(public)))


def read_public(file: str) -> str:
    """The line of a public key: of the file, or of the one beside a private key. Raises InputError."""
    from amends.evidence.proof.keys import read_key

    beside = Path(f"{file}.pub")
    place = beside if not file.endswith(".pub") and beside.is_file() else Path(file)
    try:
        text = place.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise InputError(f"{place} cannot be read: {getattr(exc, 'strerror', None) or exc}") from None
    if "PRIVATE KEY" in text:
        raise InputError(f"{place} is a private key; give its public half: ssh-keygen -y -f {place} > {place}.pub")
    return read_key(text).line


def _agent_keys() -> set[str]:
    found = _ran(["ssh-add", "-L"], "")
    lines = found.stdout.split("\n") if found is not None and found.returncode == 0 else []
    return {" ".join(line.split()[:2]) for line in lines}


def _sign(file: str, text: str) -> str:
    ran = _ran(["ssh-keygen", "-Y", "sign", "-n", "amends", "-f", file], text)
    if ran is None:
        raise InputError("ssh-keygen is not here, or gave no answer; it comes with OpenSSH 8.2 and later")
    if ran.returncode:
        raise InputError(f"ssh-keygen has not signed with {file}: {' '.join(ran.stderr.split())}")
    return ran.stdout


def _ran(words: list[str], given: str) -> CompletedProcess[str] | None:
    import shutil
    import subprocess

    program = shutil.which(words[0])
    if program is None:
        return None
    try:
        return subprocess.run(
            [program, *words[1:]], input=given, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
