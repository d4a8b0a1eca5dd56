"""Reading what a file starts: a step's own command, its compensation, probe and before-image."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from amends.sagafile import schema
from amends.sagafile.model import CommandLine
from amends.sagafile.templates import Template, template
from amends.source.marked import Listed, MarkedEntry, Mistakes, Part, Scalar, shown

VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_RESERVED: Final = "AMENDS_"
_PASTED: Final = re.compile(r"\$\{(?:input|steps|saga|result|before|done)\.")


def words_of(found: Mapping[str, MarkedEntry], mistakes: Mistakes) -> str:
    return " ".join(mistakes.text(found["does"].value, "does").split()) if "does" in found else ""


def argument(part: Part, what: str, mistakes: Mistakes, roots: Collection[str]) -> Template:
    """A text as it is written: a number keeps its digits, and a word its letters."""
    if not isinstance(part, Scalar) or part.value is None:
        mistakes.wrong(part, what, "text; put it in quotes")
        return ()
    text = part.value if isinstance(part.value, str) else part.written
    if "\0" in text:
        mistakes.add(part.line, f"{what} holds a NUL, which no argument can hold")
        return ()
    return template(text, part.line, mistakes, roots)


def values_of(part: Part, what: str, mistakes: Mistakes, roots: Collection[str]) -> dict[str, Template]:
    made: dict[str, Template] = {}
    for entry in mistakes.entries(part, what):
        if not VARIABLE.fullmatch(entry.key):
            mistakes.add(entry.line, f"{shown(entry.key)} in {what} is not a name: use letters, digits and _")
        elif entry.key.startswith(_RESERVED):
            mistakes.add(
                entry.line, f"{entry.key} in {what} is taken: variables that begin with {_RESERVED} are amends' own"
            )
        else:
            made[entry.key] = argument(entry.value, entry.key, mistakes, roots)
    return made


class CommandReader:
    """Reads what can be started: a step's own command, its compensation, probe and before-image."""

    def __init__(self, mistakes: Mistakes) -> None:
        self._mistakes = mistakes

    def started_with(self, found: Mapping[str, MarkedEntry], roots: Collection[str]) -> CommandLine:
        """Everything that a command is started with, beside its own words."""
        mistakes = self._mistakes
        return CommandLine(
            env=values_of(found["env"].value, "env", mistakes, roots) if "env" in found else {},
            inherit=self._variables(found, "inherit"),
            secrets=self._variables(found, "secrets"),
            cwd=argument(found["cwd"].value, "cwd", mistakes, roots) if "cwd" in found else (),
            confine=self._flag(found, "confine"),
            network=self._flag(found, "network"),
        )

    def _flag(self, found: Mapping[str, MarkedEntry], key: str) -> bool | None:
        if key not in found:
            return None
        part = found[key].value
        if isinstance(part, Scalar) and isinstance(part.value, bool):
            return part.value
        self._mistakes.wrong(part, key, "true or false")
        return None

    def _variables(self, found: Mapping[str, MarkedEntry], key: str) -> tuple[str, ...]:
        if key not in found:
            return ()
        names = [self._mistakes.text(item, key) for item in self._mistakes.items(found[key].value, key)]
        for name in names:
            if name and not VARIABLE.fullmatch(name):
                self._mistakes.add(found[key].line, f"{shown(name)} in {key} is not the name of a variable")
        return tuple(dict.fromkeys(names))

    def read(
        self, found: Mapping[str, MarkedEntry], where: str, line: int, roots: Collection[str], shared: CommandLine
    ) -> CommandLine:
        mistakes = self._mistakes
        both = [key for key in ("run", "shell") if key in found]
        if len(both) != 1:
            what = "has both run and shell; keep one" if both else "has no run, no shell and no http; say what it does"
            mistakes.add(line, f"{where} {what}")
        own = self.started_with(found, roots)
        return CommandLine(
            run=self._arguments(found["run"].value, roots) if "run" in found else (),
            script=self._script(found["shell"].value) if "shell" in found else "",
            env={**shared.env, **own.env},
            inherit=tuple(dict.fromkeys((*shared.inherit, *own.inherit))),
            secrets=tuple(dict.fromkeys((*shared.secrets, *own.secrets))),
            stdin=argument(found["stdin"].value, "stdin", mistakes, roots) if "stdin" in found else (),
            cwd=own.cwd or shared.cwd,
            confine=shared.confine if own.confine is None else own.confine,
            network=shared.network if own.network is None else own.network,
            does=words_of(found, mistakes),
            line=line,
        )

    def _arguments(self, part: Part, roots: Collection[str]) -> tuple[Template, ...]:
        if isinstance(part, Scalar) and isinstance(part.value, str):
            words = part.value.split()[:3]
            example = ", ".join([*words, "…"] if len(part.value.split()) > len(words) else words)
            self._mistakes.add(part.line, f"run has to be a list, as in [{example}]; a text for a shell is `shell:`")
            return ()
        items = self._mistakes.items(part, "run")
        made = tuple(argument(item, "an argument", self._mistakes, roots) for item in items)
        if items and isinstance(items[0], Scalar) and items[0].value == "":
            self._mistakes.add(items[0].line, "run begins with an empty text; begin with a program")
        return made

    def _script(self, part: Part) -> str:
        text = self._mistakes.text(part, "shell")
        pasted = _PASTED.search(text)
        if pasted:
            what = (
                f'shell holds {shown(pasted[0])}: its text is run as it is; hand it the value by env, and use "$NAME"'
            )
            self._mistakes.add(part.line, what)
        if "\0" in text:
            self._mistakes.add(part.line, "shell holds a NUL, which no argument can hold")
        return text

    def codes(
        self, found: Mapping[str, MarkedEntry], words: tuple[str, ...], default: Mapping[int, str]
    ) -> dict[int, str]:
        """The meaning of each exit code: those that are given, and the others as they are."""
        mistakes = self._mistakes
        if "exit_codes" not in found:
            return dict(default)
        given: dict[int, str] = {}
        for entry in mistakes.entries(found["exit_codes"].value, "exit_codes", words):
            items = entry.value.items if isinstance(entry.value, Listed) else (entry.value,)
            for item in items:
                code = item.value if isinstance(item, Scalar) else None
                if type(code) is not int or not 0 <= code <= schema.LARGEST_CODE:
                    mistakes.wrong(item, "an exit code", f"a whole number from 0 to {schema.LARGEST_CODE}")
                elif code in given and given[code] != entry.key:
                    mistakes.add(item.line, f"exit code {code} says both {given[code]} and {entry.key}")
                else:
                    given[code] = entry.key
        return {**{code: word for code, word in default.items() if word not in given.values()}, **given}
