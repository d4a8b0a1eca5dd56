"""The format of a saga's file: its keys, and the same as JSON Schema, which editors and other programs understand.

The reader knows a key if and only if it stands here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from amends.core.words.contracts import TOPIC_PATTERN
from amends.core.words.values import Json

VERSION: Final = "v1"
ID: Final = "https://json-schema.org/draft/2020-12/schema"
TYPES: Final = ("text", "integer", "number", "flag", "list", "map")
OUTCOMES: Final = ("succeeded", "failed", "fatal", "lost")
ANSWERS: Final = ("happened", "not_happened", "no_answer")
ENDS: Final = ("succeeded", "failed", "changed_since", "lost")
WORDS: Final = ("reversible", "compensatable", "irreversible", "undeclared")
ALWAYS: Final = ("succeeded", "failed")
MOST_STEPS: Final = 500
MOST_ATTEMPTS: Final = 1000
MOST_COUNTED: Final = 1_000_000_000
LARGEST_CODE: Final = 255
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
CLASSES: Final = ("2xx", "3xx", "4xx", "5xx")
FIRST_STATUS: Final = 200
LAST_STATUS: Final = 599

Schema = dict[str, Json]

_TEXT: Final[Schema] = {"type": "string", "minLength": 1}
_NAME: Final[Schema] = {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,63}$"}
_TOPIC: Final[Schema] = {"type": "string", "pattern": f"^{TOPIC_PATTERN}$"}
_VARIABLE: Final[Schema] = {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]{0,127}$"}
_DURATION: Final[Schema] = {"type": "string", "pattern": "^[1-9][0-9]{0,8}[smhd]$", "examples": ["30s", "15m", "1h"]}
_FLAG: Final[Schema] = {"type": "boolean"}
_SCALAR: Final[Schema] = {"type": ["string", "number", "boolean"]}
_ARGUMENTS: Final[Schema] = {"type": "array", "minItems": 1, "items": _SCALAR}
_VARIABLES: Final[Schema] = {"type": "array", "minItems": 1, "items": _VARIABLE}
_VALUES: Final[Schema] = {"type": "object", "propertyNames": _VARIABLE, "additionalProperties": _SCALAR}
_CODES: Final[Schema] = {
    "type": "array",
    "minItems": 1,
    "items": {"type": "integer", "minimum": 0, "maximum": LARGEST_CODE},
}


_STATUSES: Final[Schema] = {
    "type": "array",
    "minItems": 1,
    "items": {"oneOf": [{"type": "integer", "minimum": FIRST_STATUS, "maximum": LAST_STATUS}, {"enum": list(CLASSES)}]},
}
_FIELDS: Final[Schema] = {"type": "object", "minProperties": 1, "additionalProperties": _SCALAR}


def _told(schema: Mapping[str, Json], description: str) -> Schema:
    return {**schema, "description": description}


def _object(keys: Mapping[str, Json], *required: str) -> Schema:
    needed: list[Json] = list(required)
    return {"type": "object", "additionalProperties": False, "required": needed, "properties": dict(keys)}


def _codes(words: tuple[str, ...]) -> Schema:
    return _told(_object(dict.fromkeys(words, _CODES)), "What its exit codes say.")


def _statuses(words: tuple[str, ...]) -> Schema:
    return _told(_object(dict.fromkeys(words, _STATUSES)), "What the statuses of its answers say, with http.")


_RETRY: Final[Schema] = {
    "oneOf": [
        {"type": "integer", "minimum": 1, "maximum": MOST_ATTEMPTS},
        _object(
            {
                "attempts": {"type": "integer", "minimum": 1, "maximum": MOST_ATTEMPTS},
                "first": _DURATION,
                "cap": _DURATION,
            },
            "attempts",
        ),
    ]
}
RETRY_KEYS: Final = ("attempts", "first", "cap")

_STARTED_WITH: Final[Mapping[str, Json]] = {
    "env": _told(_VALUES, "Variables of its environment, by name; values may have references."),
    "inherit": _told(_VARIABLES, "Variables that it takes from the environment of amends, by name."),
    "secrets": _told(_VARIABLES, "The same for values that no journal, log or page may show."),
    "cwd": _told(_TEXT, "Where it runs, seen from the file's directory, which is where it runs otherwise."),
    "confine": _told(
        _FLAG,
        "true: it cannot write outside the saga's files, or does not run; false: it is kept in by nothing. Otherwise "
        "steps on files are confined where the machine can, and no command has capabilities.",
    ),
    "network": _told(_FLAG, "false: it has no network."),
}
REQUEST: Final[Mapping[str, Json]] = {
    "method": _told({"enum": list(METHODS)}, "Otherwise GET."),
    "url": _told(
        _TEXT, "Where it is sent; what references stand for is escaped, but for a whole server at its beginning."
    ),
    "headers": _told(_FIELDS, "By name; values may have references, also to secrets, as ${secret.TOKEN}."),
    "key": _told(_TEXT, "The header that the idempotency key is sent in; otherwise Idempotency-Key."),
    "json": _told({}, "A value sent as JSON; a text that is a reference alone stands for the value itself."),
    "form": _told(_FIELDS, "Fields sent as a form."),
    "body": _told(_TEXT, "A text sent as it is."),
}
_COMMAND: Final[Mapping[str, Json]] = {
    "run": _told(_ARGUMENTS, "A program and its arguments; no shell reads them."),
    "shell": _told(_TEXT, "A text for /bin/sh, run as it is; hand it values by env."),
    "http": _told(_object(REQUEST, "url"), "A request to a server, in place of a command."),
    **_STARTED_WITH,
    "stdin": _told(_TEXT, "What it reads; otherwise nothing."),
    "does": _told(_TEXT, "What it does, in words, for whoever is asked to approve it."),
}
COMPENSATE: Final[Mapping[str, Json]] = {
    **_COMMAND,
    "timeout": _told(_DURATION, "For one attempt; otherwise 30s."),
    "retry": _told(_RETRY, "How often it is tried before a person is called; otherwise 5."),
    "exit_codes": _codes(ENDS),
    "statuses": _statuses(ENDS),
}
PROBE: Final[Mapping[str, Json]] = {
    **_COMMAND,
    "exit_codes": _codes(ANSWERS),
    "statuses": _statuses(ANSWERS),
    "found": _told(_TEXT, "The place in the answer's JSON, as data.0, that is there if and only if it happened."),
}
BEFORE: Final[Mapping[str, Json]] = {**_COMMAND, "exit_codes": _codes(ALWAYS), "statuses": _statuses(ALWAYS)}


def _part(keys: Mapping[str, Json], description: str) -> Schema:
    return {"description": description, "oneOf": [_ARGUMENTS, _object(keys)]}


STEP: Final[Mapping[str, Json]] = {
    "id": _told(_NAME, "Its name in this file."),
    **_COMMAND,
    "topic": _told(_TOPIC, "What the gate knows it by; otherwise the saga's name, a dot and its id."),
    "compensate": _part(COMPENSATE, "The command that takes it back."),
    "mitigate": _part(COMPENSATE, "With no_rollback: the command that is run when a person takes its saga back."),
    "probe": _part(PROBE, "The read-only command that says whether it happened: 0 it did, 1 it did not."),
    "before": _part(BEFORE, "The read-only command whose output the compensation will need."),
    "after": _told({"type": "array", "items": _NAME}, "The steps that come first; otherwise the one above it."),
    "resources": _told(_ARGUMENTS, "What it needs for itself until its saga has ended, as account:${input.account}."),
    "files": _told(_FLAG, "It works in a changeset of the saga's files; taking it back drops what it did."),
    "timeout": _told(_DURATION, "For one attempt; otherwise 5m. Then it is ended with all that it started."),
    "retry": _told(_RETRY, "How often it is tried; otherwise once, and again only where nobody saw its end."),
    "exit_codes": _codes(OUTCOMES),
    "statuses": _statuses(OUTCOMES),
    "reversibility": _told(
        {"enum": list(WORDS)},
        "What the other keys say, as a word to check them by.",
    ),
    "no_rollback": _told(_TEXT, "Why it cannot be taken back."),
    "read_only": _told(_FLAG, "It changes nothing."),
    "idempotent": _told(_FLAG, "Repeating it with the same key is the same as doing it once."),
    "atomic": _told(_FLAG, "Any exit code or status but those of success says that nothing happened."),
    "risk": _told({"type": "array", "minItems": 1, "items": _TEXT}, "Tags that a policy can speak of."),
    "on_incident": _told({"enum": ["stop", "go_on"]}, "Whether a rollback goes on where this one cannot be undone."),
}
TREE: Final[Mapping[str, Json]] = {
    "root": _told(_TEXT, "The tree, seen from the file's directory."),
    "land": _told(_TEXT, "Bring the work into the tree at the end, with this message; else it stays outside."),
    "verify": _told(_ARGUMENTS, "A command that runs over the result first, and has to end with 0."),
    "on_conflict": _told({"enum": ["raise", "ask"]}, "Whether people are asked where others changed the same."),
}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": MOST_COUNTED}
_ATTEMPTS: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": MOST_ATTEMPTS}
RESPONSES: Final = ("rollback", "pause", "call")
LIMITS: Final[Mapping[str, Json]] = {
    "seconds": _told(_COUNT, "How much time it has since it was started, whatever it does or waits for."),
    "failures": _told(_COUNT, "How many attempts may fail or be lost, of all steps together."),
    "retries": _told(_COUNT, "How many times steps may be tried again, all together."),
    "then": _told({"enum": list(RESPONSES)}, "What happens when one is reached; otherwise rollback."),
}
INPUT: Final[Mapping[str, Json]] = {
    "type": _told({"enum": list(TYPES)}, "Otherwise text."),
    "default": _told({}, "What it is where nothing is given; without one it has to be given."),
    "choices": _told({"type": "array", "minItems": 1}, "All that it can be."),
    "pattern": _told(_TEXT, "A regular expression that all of a text has to match."),
    "does": _told(_TEXT, "What it is for, in words."),
}
FILE: Final[Mapping[str, Json]] = {
    "version": _told({"const": VERSION}, "The version of this format."),
    "saga": _told(_TOPIC, "Its name."),
    "does": _told(_TEXT, "What it does, in words."),
    "inputs": {
        "description": "What it has to be given, by name: a type, or a map.",
        "type": "object",
        "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_-]{0,63}$"},
        "additionalProperties": {"oneOf": [{"enum": list(TYPES)}, _object(INPUT)]},
    },
    **_STARTED_WITH,
    "files": {"description": "The tree that steps with files: true work on.", "oneOf": [_TEXT, _object(TREE, "root")]},
    "rollback": _told(_DURATION, "How long a whole rollback may take; otherwise 15m, or as amends.toml says."),
    "attempts": _told(_ATTEMPTS, "How often a step is tried at most, whatever its retry says."),
    "compensation_attempts": _told(_ATTEMPTS, "How often a compensation is tried at most, whatever its retry says."),
    "lease": _told(_DURATION, "How long the process that runs it keeps it without a word; otherwise 2m."),
    "limits": _told(_object(LIMITS), "What it may use up before something happens."),
    "steps": {"type": "array", "minItems": 1, "maxItems": MOST_STEPS, "items": _object(STEP, "id")},
    "result": _told(_VALUES, "What the saga gives back, by name; values may have references."),
}


def json_schema() -> Schema:
    """The format as JSON Schema (draft 2020-12). What it cannot say, such as where a reference leads, is left out."""
    whole = _object(FILE, "version", "saga", "steps")
    return {"$schema": ID, "title": "A saga for amends, as a file", **whole}
