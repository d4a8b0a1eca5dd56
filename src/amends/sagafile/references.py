"""Whether every reference of a file leads somewhere: to a declared input, to an earlier step, to an output there is."""

from __future__ import annotations

from collections.abc import Mapping

from amends.sagafile.commands import VARIABLE
from amends.sagafile.model import Call, HttpRequest, StepPlan, Written
from amends.sagafile.templates import ANSWERS, HEADERS, OF_SECRETS, OUTPUTS, Reference, references
from amends.source.marked import Mistakes

_WHOLE = frozenset({"key", "action_key", "done", "certain"})


def check_references(written: Written, mistakes: Mistakes, *, result_line: int) -> None:
    inputs = {each.name: each.type for each in written.inputs}
    plans = {step.id: step for step in written.steps}
    before = predecessors(written.steps)
    for step in written.steps:
        earlier = {name: plans[name].command for name in before[step.id]}
        for command in step.commands:
            for reference in command.references():
                _check(reference, command.line, mistakes, inputs, earlier, step)
        for text in step.resources:
            for reference in references(text):
                _check(reference, step.line, mistakes, inputs, earlier, step)
    everything = {step.id: step.command for step in written.steps}
    tree = written.tree
    if tree is not None:
        for text in (tree.root, tree.land, *tree.verify):
            for reference in references(text):
                _check(reference, tree.line, mistakes, inputs, {} if text is tree.root else everything, None)
    for text in written.result.values():
        for reference in references(text):
            _check(reference, result_line, mistakes, inputs, everything, None)


def predecessors(steps: tuple[StepPlan, ...]) -> dict[str, tuple[str, ...]]:
    """For each step, all that have certainly ended before it begins."""
    found: dict[str, tuple[str, ...]] = {}
    above: tuple[str, ...] = ()
    for step in steps:
        direct = above if step.after is None else step.after
        earlier = [name for parent in direct if parent in found for name in (*found[parent], parent)]
        found[step.id] = tuple(dict.fromkeys(earlier))
        above = (step.id,)
    return found


def _check(
    reference: Reference,
    line: int,
    mistakes: Mistakes,
    inputs: Mapping[str, str],
    earlier: Mapping[str, Call],
    step: StepPlan | None,
) -> None:
    where, path = f" in ${{{reference}}}", reference.path
    if reference.root in _WHOLE:
        if len(path) > 1:
            mistakes.add(line, f"${{{reference}}}: there is nothing inside {reference.root}")
    elif reference.root == "saga":
        if path != ("saga", "id"):
            mistakes.add(line, f"${{{reference}}}: of a saga there is only ${{saga.id}}")
    elif reference.root == OF_SECRETS:
        if len(path) != 2 or not VARIABLE.fullmatch(path[1]):  # noqa: PLR2004 - secret.NAME
            mistakes.add(line, f"${{{reference}}}: a secret is named by a variable, as ${{{OF_SECRETS}.TOKEN}}")
    elif len(path) == 1:
        mistakes.add(line, f"${{{reference}}} names nothing in particular; write ${{{reference}.…}}")
    elif reference.root == "input":
        _check_input(path, line, mistakes, inputs, where)
    elif reference.root == "steps":
        if path[1] not in earlier:
            mistakes.unknown(line, "step", path[1], list(earlier), where=where, hint="it has to end before this one")
        else:
            _check_output(path[2:], line, mistakes, where, earlier[path[1]])
    elif reference.root == "before" and (step is None or step.before is None):
        mistakes.add(line, f"${{{reference}}}: the step has no before:")
    elif step is not None:
        _check_output(path[1:], line, mistakes, where, step.before if reference.root == "before" else step.command)


def _check_input(path: tuple[str, ...], line: int, mistakes: Mistakes, inputs: Mapping[str, str], where: str) -> None:
    if path[1] not in inputs:
        mistakes.unknown(line, "input", path[1], list(inputs), where=where, hint="declare it under inputs:")
    elif len(path) > 2 and inputs[path[1]] not in {"list", "map"}:  # noqa: PLR2004 - input.name, and more
        mistakes.add(line, f"{path[1]}{where} is {inputs[path[1]]}, and has nothing inside")


def _check_output(rest: tuple[str, ...], line: int, mistakes: Mistakes, where: str, said_by: Call | None) -> None:
    outputs = ANSWERS if isinstance(said_by, HttpRequest) else OUTPUTS
    if not rest or rest[0] not in outputs:
        mistakes.unknown(line, "output", rest[0] if rest else "", outputs, where=where)
    elif rest[0] == "headers":
        if rest[1:] not in {(name,) for name in HEADERS}:
            mistakes.unknown(line, "header", ".".join(rest[1:]), HEADERS, where=where)
    elif len(rest) > 1 and rest[0] != "json":
        mistakes.add(line, f"{rest[0]}{where} has nothing inside; write json to look into it")
