"""Declaring actions and sagas: what the decorators keep, and what they refuse with a clear word."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

import amends
import amends.types
from amends import (
    Asked,
    Done,
    Registry,
    Retries,
    Reversibility,
    SagaDefinition,
    Step,
    Work,
    action,
    given,
    register,
    result_of,
)
from amends.errors import DeclarationError, InputError, TopicError, UnknownActionError, UnknownDefinitionError
from amends.runtime.declare.action import checked_topic
from amends.runtime.saga.work import saga
from tests.runtime.support import World, coordinator


def _nothing(done: Done) -> None:
    """Takes nothing back."""


@pytest.mark.parametrize("topic", ["", "Payments.charge", "a b", "é.x", "x" * 129, ".a", "a\n", "a\u200bb"])
def test_a_topic_that_is_not_one_is_refused(topic: str) -> None:
    with pytest.raises(TopicError, match="is not a topic"):
        action(topic)


def test_the_contract_says_what_the_author_said() -> None:
    @action("test.contract", risk={"money", "eu"}, idempotent=True, timeout=10, retries=3, version=2)
    async def act() -> None: ...

    before = act.contract
    act.compensation(_nothing)
    after = act.contract
    assert (before.reversibility, after.reversibility) == (Reversibility.UNDECLARED, Reversibility.COMPENSATABLE)
    assert after.compensation_declared
    assert act.contract.risk == ("eu", "money")
    assert (act.contract.timeout_s, act.contract.retries, act.contract.version) == (10, Retries(attempts=3), 2)
    assert repr(act) == "<action test.contract/2>"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"no_rollback": " "}, "no_rollback"),
        ({"no_rollback": "x", "read_only": True}, "read_only"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": -1}, "timeout"),
        ({"retries": 0}, "at least one attempt"),
        ({"retries": Retries(first_s=-1)}, "negative"),
        ({"compensation_timeout": 0}, "compensation_timeout"),
    ],
)
def test_a_contract_that_contradicts_itself_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(DeclarationError, match=said):
        action("test.bad", **options)


@pytest.mark.parametrize("options", [{"no_rollback": "sent is sent"}, {"read_only": True}])
def test_a_compensation_for_what_needs_none_is_refused(options: dict[str, Any]) -> None:
    @action("test.needs_none", **options)
    async def act() -> None: ...

    with pytest.raises(DeclarationError, match="remove no_rollback= or read_only="):
        act.compensation(_nothing)


def test_an_action_outside_a_saga_is_the_plain_function_with_its_signature() -> None:
    @action("test.plainly")
    def add(a: int, b: int = 2) -> int:
        """Adds."""
        return a + b

    @action("test.plainly_async")
    async def later(a: int) -> str:
        return f"{a} {amends.key()[:6]}"

    assert add(1) == 3
    assert asyncio.run(later(1)) == "1 plain-"
    assert str(inspect.signature(add)) == "(a: 'int', b: 'int' = 2) -> 'int'"
    assert (getattr(add, "__name__", ""), add.__doc__) == ("add", "Adds.")


def test_what_is_not_decorated_can_be_registered() -> None:
    seen: list[str] = []

    def did(n: int) -> None:
        seen.append(f"did {n}")

    def undid(done: Done) -> None:
        seen.append(f"undid {done.args['n']} {done.before}")

    def capture(asked: Asked) -> int:
        return int(asked.args["n"]) + 1

    act = register("test.registered", did, compensation=undid, before=capture, idempotent=True)

    @saga("test.registers")
    async def registers(s: Work) -> None:
        await s.do(act, 1)
        raise RuntimeError("back")

    async def whole() -> Any:
        async with coordinator() as opened:
            return await opened.run(registers)

    assert asyncio.run(whole()).status == "rolled_back"
    assert seen == ["did 1", "undid 1 2"]


def test_a_registry_names_what_it_does_not_know() -> None:
    registry = Registry()
    with pytest.raises(UnknownActionError, match=r"no action test\.none version 1 .* import the module"):
        registry.action(checked_topic("test.none"), 1)
    with pytest.raises(UnknownDefinitionError, match="import the module"):
        registry.definition("test.none", 1)

    @saga("test.known", version=3)
    async def known(s: Work) -> None: ...

    registry.add_definition(known)
    with pytest.raises(UnknownDefinitionError, match="it knows version 3"):
        registry.definition("test.known", 1)


def test_a_topic_declared_in_two_modules_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    registry = Registry()
    for module in ("one", "two"):

        async def act() -> None: ...

        act.__module__ = module
        registry.add_action(amends.Action(act, amends.types.Contract(topic=checked_topic("test.twice"))))
    assert "declared in one and again in two" in caplog.text


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: saga("test.sync")(cast("Any", _nothing)), "goes on an async function"),
        (lambda: SagaDefinition("test.empty", []), "has no steps"),
        (lambda: SagaDefinition("Bad Name", []), "is not a topic"),
    ],
)
def test_a_definition_that_cannot_run_is_refused(make: Any, said: str) -> None:
    with pytest.raises(DeclarationError, match=said):
        make()


def test_a_saga_function_that_takes_no_saga_is_refused() -> None:
    with pytest.raises(DeclarationError, match="takes the saga first"):

        @saga("test.no_s")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - as checkers say
        async def nothing() -> None: ...


@pytest.fixture
def line() -> SagaDefinition:
    @action("test.analyze", read_only=True)
    async def analyze(path: str) -> dict[str, Any]:
        return {"files": [path, path + ".bak"]}

    @action("test.create")
    async def create(name: str, mode: str = "w") -> str:
        return f"{name}:{mode}"

    @create.compensation
    async def remove(done: Done) -> None: ...

    return SagaDefinition(
        "test.refactor",
        [analyze, Step(create, {"name": result_of("analyze", "files", 1), "mode": given("mode")}, name="made")],
    )


def test_a_list_of_steps_takes_input_and_earlier_results_by_name(line: SagaDefinition) -> None:
    async def whole() -> Any:
        async with coordinator() as opened:
            by_words = await opened.run(line, path="a.py", mode="x")
            by_object = await opened.run(line, {"path": "a.py", "mode": "x"})
            return by_words.result, by_object.result

    by_words, by_object = asyncio.run(whole())
    assert by_words == by_object == {"analyze": {"files": ["a.py", "a.py.bak"]}, "made": "a.py.bak:x"}


def test_references_are_found_however_deep_they_stand(line: SagaDefinition) -> None:
    @action("test.takes_any", read_only=True)
    async def takes(what: Any) -> Any:
        return what

    deep = SagaDefinition(
        "test.deep", [line.steps[0], Step(takes, {"what": [{"x": [given("n"), result_of("analyze")]}]})]
    )

    async def whole() -> Any:
        async with coordinator() as opened:
            with pytest.raises(InputError, match="needs n in the input"):
                await opened.run(deep, path="p")
            return (await opened.run(deep, path="p", n=1)).result["takes"]

    assert asyncio.run(whole()) == [{"x": [1, {"files": ["p", "p.bak"]}]}]


def test_a_list_of_steps_says_what_its_input_lacks_before_anything_is_dispatched(line: SagaDefinition) -> None:
    async def whole() -> None:
        async with coordinator() as opened:
            with pytest.raises(InputError, match="step made needs mode in the input"):
                await opened.run(line, path="a.py")
            with pytest.raises(InputError, match="takes an object"):
                await opened.run(line, 3)
            assert await opened.list() == []

    asyncio.run(whole())


def test_a_list_of_steps_is_checked_when_it_is_made(line: SagaDefinition) -> None:
    create = line.steps[1].action
    with pytest.raises(DeclarationError, match="two steps called create"):
        SagaDefinition("test.twice", [create, create])
    with pytest.raises(DeclarationError, match="takes no nome"):
        SagaDefinition("test.typo", [Step(create, {"nome": 1})])
    with pytest.raises(DeclarationError, match="not an earlier step"):
        SagaDefinition("test.forward", [Step(create, {"name": result_of("later")})])
    with pytest.raises(DeclarationError, match="is not an action"):
        SagaDefinition("test.plain", [Step(cast("Any", len))])


@pytest.mark.parametrize(
    ("document", "bound"),
    [
        ({"trip": 1}, {"trip": 1, "fast": False}),
        ({"trip": {"trip": 1}, "fast": True}, {"trip": {"trip": 1}, "fast": True}),
        ({"trip": None}, {"trip": None, "fast": False}),
    ],
)
def test_one_json_document_is_the_inputs_by_name(document: object, bound: dict[str, object]) -> None:
    assert _document_saga().bind_document(document) == bound


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (None, "needs trip; give it with --input '{\"trip\": …}'"),
        ({}, "needs trip; give it with --input '{\"trip\": …}'"),
        ({"fast": True}, "needs trip; give it with --input '{\"trip\": …}'"),
        ({"tripp": 1}, "has no input 'tripp'; did you mean trip?"),
        ({"trip": 1, "flight": 1}, "has no input 'flight'; it takes trip, fast"),
        ([1], 'takes an object of inputs, not [1]; write {"trip": …}, or say --input-as trip'),
    ],
)
def test_a_document_is_never_made_to_fit(document: object, told: str) -> None:
    """What is missing, or has another name, is not made up of what is there."""
    with pytest.raises(InputError) as refused:
        _document_saga().bind_document(document)
    assert str(refused.value) == f"saga test.document {told}"


def _document_saga() -> SagaDefinition:
    @saga("test.document")
    async def book(s: Work, trip: Any, fast: bool = False) -> None: ...

    return book


def test_a_call_that_does_not_fit_is_told_as_python_tells_it_with_the_word_that_was_meant() -> None:
    @saga("test.two")
    async def two(s: Work, a: int, beta: int) -> None: ...

    def told(*args: Any, **kwargs: Any) -> str:
        with pytest.raises(InputError) as refused:
            two.bind(args, kwargs)
        return str(refused.value)

    assert told(1) == "saga test.two: missing a required argument: 'beta'; it takes (a, beta)"
    assert told(1, 2, 3) == "saga test.two: too many positional arguments; it takes (a, beta)"
    said = "saga test.two: got an unexpected keyword argument 'betta'; did you mean beta? it takes (a, beta)"
    assert told(1, betta=2) == said
    assert told(1, 2, z=2) == "saga test.two: got an unexpected keyword argument 'z'; it takes (a, beta)"


def test_a_list_takes_what_its_steps_resources_and_assertions_ask_for_and_nothing_else() -> None:
    @action("test.named", read_only=True)
    def named(name: str, size: int = 1) -> str:
        return name

    def holds(result: object, wanted: str = "") -> None: ...

    line = SagaDefinition(
        "test.inputs", [Step(named, {"size": given("big")})], verify=[holds], resources=["shelf:{shelf.name}"]
    )
    every = {"big": 1, "name": "a", "wanted": "a", "shelf": {"name": "x"}}
    assert line.bind_document(every) == line.bind((), every) == {"given": every}
    for given_now, said in (
        ({**every, "nmae": 1}, "saga test.inputs has no input 'nmae'; did you mean name?"),
        ({**every, "size": 1}, "saga test.inputs has no input 'size'; it takes big, name, wanted, shelf"),
        ({"big": 1}, "saga test.inputs, step named needs name in the input"),
    ):
        with pytest.raises(InputError) as of_document:
            line.bind_document(given_now)
        with pytest.raises(InputError) as of_call:
            line.bind((), given_now)
        assert str(of_document.value) == str(of_call.value) == said
    assert SagaDefinition("test.needs_none", [Step(named, {"name": "x"})]).bind_document(None) == {"given": {}}


def test_inputs_by_name_reach_parameters_of_every_kind() -> None:
    @saga("test.every_kind")
    async def every(s: Work, a: int, /, b: int, *rest: int, c: int = 3, **more: int) -> None: ...

    bound = {"a": 1, "b": 2, "rest": [4, 5], "c": 6, "more": {"d": 7}}
    assert every.bind_document({"a": 1, "b": 2, "rest": [4, 5], "c": 6, "d": 7}) == bound
    assert every.bind_document({"b": 2, "a": 1}) == {"a": 1, "b": 2, "c": 3}
    with pytest.raises(InputError, match="input rest has to be a list, not 4"):
        every.bind_document({"a": 1, "b": 2, "rest": 4})
    with pytest.raises(InputError, match="needs b"):
        every.bind_document({"a": 1})

    @saga("test.defaults_between")
    async def between(s: Work, a: int = 1, b: int = 2, /, c: int = 3, *rest: int) -> None: ...

    assert between.bind_document({"b": 5}) == {"a": 1, "b": 5, "c": 3}
    assert between.bind_document({"a": 4, "rest": [9]}) == {"a": 4, "b": 2, "c": 3, "rest": [9]}


def test_every_kind_of_parameter_is_bound_by_name_and_called_again() -> None:
    seen: list[Any] = []

    @action("test.kinds")
    async def kinds(a: int, /, b: int, *rest: int, c: int = 3, **more: int) -> None:
        seen.append((a, b, rest, c, more))

    @kinds.compensation
    async def undo(done: Done) -> None:
        seen.append(done.args)

    @saga("test.all_kinds")
    async def all_kinds(s: Work) -> None:
        await s.do(kinds, 1, 2, 8, 9, d=4)
        raise RuntimeError("back")

    async def whole() -> None:
        async with coordinator() as opened:
            await opened.run(all_kinds)

    asyncio.run(whole())
    assert seen == [(1, 2, (8, 9), 3, {"d": 4}), {"a": 1, "b": 2, "rest": [8, 9], "c": 3, "more": {"d": 4}}]


def test_a_wrong_call_is_an_error_that_names_the_parameters() -> None:
    world = World()
    a = world.action("a")

    @saga("test.wrong_call")
    async def wrong(s: Work) -> None:
        await s.do(a, 1, 2, 3)

    @saga("test.not_an_action")
    async def not_an_action(s: Work) -> None:
        await s.do(cast("Any", len), [])

    async def whole() -> tuple[str, str]:
        async with coordinator() as opened:
            return (await opened.run(wrong)).why, (await opened.run(not_an_action)).why

    wrongly, plainly = asyncio.run(whole())
    assert "it takes (n)" in wrongly
    assert "is not an action; decorate it with @action" in plainly
    assert world.seen == []


# -- parts that could never be called ---------------------------------------------------------------------------------


def _charge(order: str, cents: int) -> str:
    return f"{order} {cents}"


def _quote(order: str) -> int:
    return len(order)


def _none() -> None: ...
def _two(done: Done, key: str) -> None: ...
def _by_keyword(*, done: Done) -> None: ...
def _any_keywords(**done: Any) -> None: ...
def _of_another(cents: int, room: str) -> None: ...
def _yields(done: Done) -> Any:
    yield done


async def _yields_later(done: Done) -> Any:
    yield done


MISFITS = [
    ("compensation", _none, "it is called with one argument, a Done: _none(done); too many positional arguments"),
    ("compensation", _two, "a Done: _two(done); missing a required argument: 'key'"),
    ("compensation", _by_keyword, "a Done: _by_keyword(done); too many positional arguments"),
    ("compensation", _any_keywords, "a Done: _any_keywords(done); too many positional arguments"),
    ("compensation", _yields, "is a generator: called, it would not run a line of it; return what it gives"),
    ("compensation", _yields_later, "is a generator: called, it would not run a line of it; return what it gives"),
    ("probe", _none, "it is called with one argument, an Asked: _none(asked); too many positional arguments"),
    ("probe", _two, "an Asked: _two(asked); missing a required argument: 'key'"),
    ("probe", _yields, "is a generator"),
    ("reread", _none, "it is called with one argument, a Done: _none(done); too many positional arguments"),
    ("reread", _two, "a Done: _two(done); missing a required argument: 'key'"),
    ("before", _of_another, "or with any of order, cents by name; missing a required argument: 'room'"),
    ("before", _any_keywords, "an Asked: _any_keywords(asked), or with any of order, cents by name; too many"),
    ("before", _yields, "is a generator"),
    (
        "validate",
        _two,
        "called with the result: _two(result), or with any of result, order by name; missing a required",
    ),
    ("validate", _by_keyword, "the result: _by_keyword(result), or with any of result, order by name; too many"),
    ("validate", _yields, "is a generator"),
]


@pytest.mark.parametrize(("part", "function", "told"), MISFITS)
def test_a_part_that_could_never_be_called_is_refused_where_it_is_declared(part: str, function: Any, told: str) -> None:
    acts: Any = _quote if part == "validate" else _charge
    contract: Any = {"read_only": True} if part == "validate" else {}
    bare = register("test.parts", acts, **contract)
    for declare in (
        lambda: getattr(bare, part)(function),
        lambda: register("test.parts", acts, **contract, **{part: function}),
    ):
        with pytest.raises(DeclarationError) as refused:
            declare()
        said = str(refused.value)
        assert said.startswith(f"test.parts: its {part} tests.runtime.test_declaring:{function.__name__}, line ")
        assert told in said
    assert bare.contract.reversibility is not Reversibility.COMPENSATABLE


class _Bank:
    def refund(self, done: Done) -> None: ...

    def charge(self, order: str) -> str:
        return order

    @staticmethod
    def look(asked: Asked) -> amends.NotHappened:
        return amends.NotHappened()


def test_parts_of_every_possible_kind_are_taken() -> None:
    def with_defaults(done: Done, tries: int = 3) -> None: ...
    def with_rest(*things: Any) -> None: ...
    async def by_name(cents: int, order: str = "") -> int:
        return cents

    undoes: list[Callable[[Any], object]] = [with_defaults, with_rest, lambda done: None, _Bank().refund, print]
    for undo in undoes:
        assert register("test.kinds_of_parts", _charge, compensation=undo).parts.compensation == undo

    def by_order(order: str) -> int:
        return 1

    def one(asked: Asked) -> None: ...
    def with_result(order: str, result: int) -> None: ...

    captures: list[Callable[..., object]] = [by_name, _none, one, by_order]
    for capture in captures:
        assert register("test.kinds_of_parts", _charge, before=capture).parts.before is capture
    assert register("test.kinds_of_parts", _charge, probe=_Bank.look, reread=with_rest).parts.probe is _Bank.look
    looks: list[Callable[..., object]] = [one, with_result, by_order, _none]
    for check in looks:
        register("test.kinds_of_results", _quote, read_only=True, validate=check)


@pytest.mark.parametrize("part", ["compensation", "probe", "before", "reread", "validate"])
def test_a_second_part_does_not_take_the_firsts_place(part: str) -> None:
    acts: Any = _quote if part == "validate" else _charge
    contract: Any = {"read_only": True} if part == "validate" else {}

    def first(thing: Any) -> None: ...
    def second(thing: Any) -> None: ...

    declared = register("test.second", acts, **contract, **{part: first})
    getattr(declared, part)(first)  # the same once more
    with pytest.raises(DeclarationError) as refused:
        getattr(declared, part)(second)
    assert str(refused.value).startswith(f"test.second has a {part} already, ")
    assert ".first, line " in str(refused.value)
    assert ".second, line " in str(refused.value)
    assert "would take its place unseen; keep one of them" in str(refused.value)


def test_a_cell_that_is_run_again_declares_its_part_again() -> None:
    """At a prompt or in a notebook the action stays, and the function is another object of the same name."""
    charge = register("test.cells", _charge)
    prompt: dict[str, Any] = {"charge": charge, "__name__": "__main__"}
    cell = "@charge.compensation\ndef undo(done): return {}\n"
    exec(compile(cell.format(1), "cell-1", "exec"), prompt)
    exec(compile(cell.format(1), "cell-1", "exec"), prompt)
    exec(compile(cell.format(2), "cell-2", "exec"), prompt)
    assert charge.parts.compensation is prompt["undo"]
    with pytest.raises(DeclarationError, match="has a compensation already, __main__:undo, line 1, and __main__:undo"):
        exec(compile("\n\n" + cell.format(3), "cell-2", "exec"), prompt)


def test_a_module_that_is_loaded_again_declares_all_of_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "from amends import action\n@action('test.again')\ndef do(): ...\n@do.compensation\ndef undo(done): ...\n"
    (tmp_path / "declared_again.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    module = importlib.import_module("declared_again")
    first = module.do
    (tmp_path / "declared_again.py").write_text("\n\n" + text, encoding="utf-8")
    assert importlib.reload(module).do is not first
    del sys.modules["declared_again"]


def test_an_action_is_no_method() -> None:
    said = (
        "is a method, and no step would give it its object; put @staticmethod above @action, move it out of the class"
    )
    for first, above in (("self", ""), ("cls", "    @classmethod\n")):
        text = f"class Shop:\n{above}    @action('test.method')\n    def sell({first}, item): ...\n"
        with pytest.raises(DeclarationError, match=said):
            exec(text, {"action": action, "__name__": "shop"})

    with pytest.raises(DeclarationError, match=r"register\('test\.unbound', an_object\.charge\)"):
        register("test.unbound", _Bank.charge)


def test_static_methods_bound_methods_and_functions_with_a_self_are_actions() -> None:
    class Shop:
        @staticmethod
        @action("test.static_above")
        def sell(item: str) -> str:
            return f"sold {item}"

        @action("test.static_below")
        @staticmethod
        async def buy(item: str) -> str:
            return f"bought {item}"

    @action("test.self")
    def describe(self: str) -> str:
        return f"it is {self}"

    charge = register("test.bound", _Bank().charge)

    @saga("test.statics")
    async def all_of_them(s: Work) -> list[str]:
        return [
            await s.do(Shop.sell, "a"),
            await s.do(Shop.buy, "b"),
            await s.do(describe, "c"),
            await s.do(charge, "d"),
        ]

    async def told() -> Any:
        async with coordinator() as on:
            return (await on.run(all_of_them)).result

    assert asyncio.run(told()) == ["sold a", "bought b", "it is c", "d"]
    assert Shop.buy.parts.is_async


def test_an_action_that_yields_is_refused_for_none_of_it_would_run() -> None:
    with pytest.raises(DeclarationError, match=r"its action .*_yields, line .* is a generator"):
        register("test.yields", _yields)
