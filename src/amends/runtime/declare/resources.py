"""The names of what a step or a saga needs for itself: templates over its arguments. Knows no locks.

`account:{account}` is one resource; where the argument is a list, one for each item; `{trip.account}` looks inside.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from string import Formatter
from typing import Final

from amends.core.words.values import SECRET_MARK, Json
from amends.errors import DeclarationError, InputError
from amends.journal.port.locks import checked_resource

_parse: Final = Formatter().parse


def checked_templates(what: str, templates: Iterable[str], names: Iterable[str] | None) -> tuple[str, ...]:
    """Raises DeclarationError for one that cannot be filled from parameters of these names; None: of any."""
    known, checked = None if names is None else tuple(names), tuple(templates)
    for template in checked:
        try:
            parts = list(_parse(template))
        except ValueError as exc:
            raise DeclarationError(f"{what}: the resource {template!r} is no template: {exc}") from None
        for _, field, spec, conversion in parts:
            name = None if field is None else field.partition(".")[0]
            if name is not None and (spec or conversion or not name or (known is not None and name not in known)):
                raise DeclarationError(
                    f"{what}: the resource {template!r} asks for {{{field}}}; write {{name}} or {{name.key}} "
                    f"with one of its parameters: {', '.join(known or ()) or 'it has none'}"
                )
        if not template.strip():
            raise DeclarationError(f"{what}: a resource has no name; write it as 'account:{{account}}'")
    return checked


def fields_of(templates: Iterable[str]) -> tuple[str, ...]:
    """The names of the arguments that they are filled from."""
    fields = [field for template in templates for _, field, _, _ in _parse(template) if field is not None]
    return tuple(field.partition(".")[0] for field in fields)


def resources_of(what: str, templates: Iterable[str], args: Json) -> tuple[str, ...]:
    """The resources that these arguments stand for, each once. Raises InputError for a value that cannot name one."""
    found: dict[str, None] = {}
    for template in templates:
        parts = [(text, field) for text, field, _, _ in _parse(template)]
        values = [_values(what, template, field, args) for _, field in parts if field is not None]
        for chosen in itertools.product(*values):
            filling = iter(chosen)
            texts = [text + (next(filling) if field is not None else "") for text, field in parts]
            found[checked_resource("".join(texts))] = None
    return tuple(found)


def _values(what: str, template: str, field: str, args: Json) -> list[str]:
    value: Json = args
    for key in field.split("."):
        if not isinstance(value, dict) or key not in value:
            raise InputError(f"{what}: the resource {template!r} needs {field}, and there is no {key} in the arguments")
        value = value[key]
    items = value if isinstance(value, list) else [value]
    for item in items:
        if isinstance(item, dict) and SECRET_MARK in item:
            raise InputError(f"{what}: the resource {template!r}: {field} is a secret, which cannot name a resource")
        if isinstance(item, bool) or not isinstance(item, str | int):
            raise InputError(f"{what}: the resource {template!r}: {field} must be text or an integer, not {item!r}")
    return [str(item) for item in items]


def listed(what: str, templates: Iterable[str]) -> tuple[str, ...]:
    if isinstance(templates, str):
        raise DeclarationError(f"{what}: resources={templates!r} must be a list, as [{templates!r}]")
    return tuple(templates)
