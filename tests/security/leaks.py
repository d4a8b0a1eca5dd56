"""Everything that amends leaves behind or says of a saga, to be searched for what must not be in it."""

from pathlib import Path

from tests.cli.shell import Shell

SHOWN = (
    ("saga", "show"),
    ("saga", "show", "--json"),
    ("evidence", "record"),
    ("evidence", "events"),
)
LISTED = (("incident", "list", "--json"), ("approval", "list", "--json"))


def everything_about(amends: Shell, *sagas: str) -> str:
    """The journal's bytes, and what every command says that shows sagas, incidents, events and notices."""
    journal = amends.place / "amends.db"
    texts = [beside.read_bytes().decode("utf-8", "replace") for beside in journal.parent.glob("amends.db*")]
    for saga in sagas:
        for words in SHOWN:
            said = amends(*words[:2], saga, *words[2:])
            assert said.code in {0, 3, 4}, said
            texts += [said.out, said.err]
    for words in LISTED:
        said = amends(*words)
        texts += [said.out, said.err]
    told = amends.place / "told.json"
    said = amends("notify", "--command", f"tee -a {told}", "--once")
    texts += [said.out, said.err, told.read_text(encoding="utf-8") if told.exists() else ""]
    return "\n".join(texts)


def leaks(text: str, secret: str, shortest: int = 8) -> list[str]:
    """The pieces of a secret that a text holds, each as long as that; none where all of it was taken out."""
    size = min(shortest, len(secret))
    return [piece for at in range(len(secret) - size + 1) if (piece := secret[at : at + size]) in text]


def log_lines(said: str) -> list[str]:
    return [line for line in said.splitlines() if line]


def write(place: Path, name: str, text: str) -> None:
    (place / name).write_text(text, encoding="utf-8")
