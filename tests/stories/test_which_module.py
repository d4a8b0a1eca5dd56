"""Which module? The configuration says it once, the journal remembers it, and nobody has to know it at two at night."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.shell import PATIENCE_S, Shell

SAGAS = """
import os
from pathlib import Path

from amends import Done, Fatal, Work, action, saga

Path("imported").write_text(Path("imported").read_text() + "x" if Path("imported").exists() else "x")


@action("shop.put")
def put(thing: str) -> None: ...


@put.compensation
def take(done: Done) -> None:
    if not Path("mended").exists():
        raise Fatal("the shelf is locked")


@action("shop.weigh", read_only=True)
def weigh() -> None:
    raise Fatal("too heavy")


@action("shop.die", idempotent=True)
def die() -> None:
    if not Path("mended").exists():
        os._exit(9)


@die.compensation
def undie(done: Done) -> None: ...


@saga("shop.stock")
async def stock(s: Work) -> None:
    await s.do(put, "cup")
    await s.do(weigh)


@saga("shop.dies")
async def dies(s: Work) -> str:
    await s.do(die)
    return "alive"
"""


@pytest.fixture(name="amends")
def _amends(tmp_path: Path) -> Shell:
    amends = Shell(tmp_path)
    (tmp_path / "shop.py").unlink()
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    (tmp_path / "shop" / "sagas.py").write_text(SAGAS, encoding="utf-8")
    return amends


def configure(amends: Shell, modules: str = '["shop.sagas"]') -> None:
    (amends.place / "amends.toml").write_text(f"modules = {modules}\n", encoding="utf-8")


def started(amends: Shell, saga: str) -> dict[str, object]:
    """The body of the entry that started a saga."""
    (entry,) = [
        each for each in amends("saga", "show", saga, "--json").of_type("entry") if each["name"] == "saga.started/1"
    ]
    body: dict[str, object] = entry["body"]
    return body


def mend(amends: Shell) -> None:
    (amends.place / "mended").touch()


def test_a_hint_names_the_module_that_the_journal_remembers(amends: Shell) -> None:
    assert amends("run", "shop.sagas:stock", "--id", "inc-1").code == 4
    assert started(amends, "inc-1")["module"] == "shop.sagas"
    shown = amends("incident", "show", "inc-1/1").out
    assert "    amends incident retry inc-1/1 --module shop.sagas\n" in shown
    assert "MODULE" not in shown
    complaint = amends("incident", "retry", "inc-1/1").complaint
    assert complaint.endswith("name the module that declared it: --module shop.sagas")


def test_a_configured_module_need_not_be_named_and_no_hint_names_it(amends: Shell) -> None:
    configure(amends)
    assert amends("run", "shop.sagas:stock", "--id", "inc-1").code == 4
    shown = amends("incident", "show", "inc-1/1").out
    assert "    amends incident retry inc-1/1\n" in shown
    assert "MODULE" not in shown
    mend(amends)
    assert amends("incident", "retry", "inc-1/1").code == 0


@pytest.mark.parametrize("how", [("shop.sagas",), ("--module", "shop.sagas"), ("-m", "shop.sagas")])
@pytest.mark.parametrize(
    "command",
    [
        ("resume",),
        ("saga", "check"),
        ("action", "list"),
        ("action", "check"),
        ("policy", "coverage"),
        ("doctor",),
        ("incident", "retry", "inc-1/1"),
        ("incident", "retry", "inc-1"),
        ("saga", "retry", "inc-1"),
        ("incident", "resolve", "inc-1/1", "--reason", "by hand"),
        ("saga", "cancel", "inc-1", "--plan"),
        ("saga", "rollback", "inc-1", "--plan"),
    ],
    ids=" ".join,
)
def test_a_module_is_named_last_or_as_an_option_wherever_one_is_needed(
    amends: Shell, command: tuple[str, ...], how: tuple[str, ...]
) -> None:
    assert amends.here("run", "shop.sagas:stock", "--id", "inc-1").code == 4
    mend(amends)
    (amends.place / "imported").unlink()
    said = amends.here(*command, *how)
    assert said.code in {0, 1, 4}, said
    assert (amends.place / "imported").exists()


def test_a_worker_takes_its_modules_in_either_form(amends: Shell) -> None:
    assert amends("run", "shop.sagas:dies", "--id", "d-1").code == 9
    mend(amends)
    with amends.started("work", "shop.sagas") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "saga d-1 completed: alive\n"


def test_resume_says_what_it_does_not_know_and_does_not_end_as_if_all_were_well(amends: Shell) -> None:
    assert amends("run", "shop.sagas:dies", "--id", "d-1").code == 9
    said = amends("resume")
    assert (said.code, said.out) == (6, "nothing resumed; 1 saga is left that no module named here declares\n")
    assert said.err == (
        "amends: saga d-1 (shop.dies) is left running: no module named here declares it; "
        "go on with: amends resume shop.sagas\n"
    )
    (left,) = amends("resume", "--json").records
    assert left == {
        "type": "left",
        "saga": "d-1",
        "definition": "shop.dies",
        "status": "running",
        "module": "shop.sagas",
    }
    assert "go on with: amends resume shop.sagas" in amends("saga", "list").out
    assert "go on with: amends resume shop.sagas" in amends("saga", "watch", "--once").out
    configure(amends)
    mend(amends)
    said = amends("resume")
    assert (said.code, said.out.splitlines()[-1], said.err) == (0, "saga d-1 completed: alive", "")


def test_modules_are_looked_for_beside_the_file_that_names_them(amends: Shell) -> None:
    assert amends("run", "shop.sagas:dies", "--id", "d-1", "--journal", "a.db").code == 9
    (amends.place / "pyproject.toml").write_text(
        '[tool.amends]\njournal = "a.db"\nmodules = ["shop.sagas"]\n', encoding="utf-8"
    )
    mend(amends)
    below = amends.place / "below"
    below.mkdir()
    mended = below / "mended"
    mended.touch()
    done = subprocess.run(
        [sys.executable, "-m", "amends.cli.main", "resume"],
        cwd=below,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "saga d-1 completed: alive"), done


def test_a_journal_names_a_module_and_has_nothing_imported(amends: Shell) -> None:
    """Whoever can plant a journal could else run any code that is somewhere on the path."""
    assert amends("run", "shop.sagas:stock", "--id", "inc-1").code == 4
    assert amends("run", "shop.sagas:dies", "--id", "d-1").code == 9
    (amends.place / "imported").unlink()
    for words in (
        ("saga", "list"),
        ("saga", "show", "inc-1"),
        ("incident", "show", "inc-1/1"),
        ("incident", "retry", "inc-1/1"),
        ("saga", "cancel", "d-1"),
        ("resume",),
        ("doctor",),
    ):
        amends(*words)
    assert not (amends.place / "imported").exists()
    configure(amends)
    for words in (("saga", "list"), ("saga", "show", "inc-1"), ("incident", "show", "inc-1/1"), ("approval", "list")):
        assert amends(*words).code == 0
    assert not (amends.place / "imported").exists()


def test_a_configuration_that_others_could_write_has_nothing_imported(amends: Shell) -> None:
    assert amends("run", "shop.sagas:dies", "--id", "d-1").code == 9
    (amends.place / "imported").unlink()
    configure(amends)
    (amends.place / "amends.toml").chmod(0o666)
    assert "amends.toml" in amends("resume").complaint
    assert not (amends.place / "imported").exists()


@pytest.mark.parametrize("modules", ['"shop.sagas"', "[1]", '["shop/sagas.py"]', '[""]', '["shop sagas"]'])
def test_what_is_no_list_of_modules_is_refused_with_its_line(amends: Shell, modules: str) -> None:
    configure(amends, modules)
    complaint = amends("saga", "list").complaint
    assert 'amends.toml:1: modules has to be a list of what to import, such as ["shop.sagas"], not ' in complaint


def test_a_configured_module_that_is_not_there_is_told_with_the_file_that_names_it(amends: Shell) -> None:
    configure(amends, '["shop.sgas"]')
    assert amends("run", "shop.sagas:dies", "--id", "d-1").code == 9
    assert "there is no module shop.sgas; looked in " in amends("resume").complaint
    assert "(one of modules in " in amends("resume").complaint
    (found,) = [each for each in amends("doctor", "--json").of_type("check") if each["name"] == "modules"]
    assert (found["state"], found["do"]) == ("wrong", "mend it, or name another there")


SCRIPT = """
import amends
import shop.sagas


@amends.saga("of.a.script")
async def of_a_script(s: amends.Work) -> None:
    await s.do(shop.sagas.put, "x")


def made() -> amends.SagaDefinition:
    @amends.saga("of.a.function")
    async def of_a_function(s: amends.Work) -> None:
        await s.do(shop.sagas.put, "x")

    return of_a_function


if __name__ == "__main__":
    amends.run(of_a_script, id="script", journal="amends.db")
    amends.run(made(), id="function", journal="amends.db")
    amends.run(amends.SagaDefinition("of.a.list", [amends.Step(shop.sagas.put, {"thing": "x"})]), id="list")
    amends.run(shop.sagas.stock, id="imported", journal="amends.db")
"""


def test_a_script_has_no_name_to_remember_and_what_it_imports_has(amends: Shell) -> None:
    (amends.place / "agent.py").write_text(SCRIPT, encoding="utf-8")
    ran = amends.python("agent.py", PYTHONPATH=str(amends.place))
    assert ran.code == 0, ran
    for name in ("script", "function", "list"):
        assert "module" not in started(amends, name)
    assert started(amends, "imported")["module"] == "shop.sagas"


def test_what_is_run_as_a_module_is_remembered_by_the_name_that_can_be_imported(amends: Shell) -> None:
    (amends.place / "shop" / "agent.py").write_text(SCRIPT, encoding="utf-8")
    assert amends.python("-m", "shop.agent").code == 0
    assert started(amends, "script")["module"] == "shop.agent"


def test_a_list_of_steps_is_of_the_module_whose_import_makes_it(amends: Shell) -> None:
    (amends.place / "lists.py").write_text(
        "from amends import SagaDefinition, Step\nimport shop.sagas\n"
        'def made(name): return SagaDefinition(name, [Step(shop.sagas.put, {"thing": "x"})])\n',
        encoding="utf-8",
    )
    (amends.place / "uses.py").write_text('import lists\nline = lists.made("a.line")\n', encoding="utf-8")
    assert amends("run", "uses:line", "--id", "l").code == 0
    assert started(amends, "l")["module"] == "uses"


def test_a_saga_of_a_file_needs_no_module_and_a_child_has_its_own(amends: Shell) -> None:
    (amends.place / "echo.yaml").write_text(
        "version: v1\nsaga: echo\nsteps:\n  - {id: hello, run: [echo, hello], read_only: true}\n", encoding="utf-8"
    )
    ran = amends("run", "echo.yaml", "--id", "e")
    assert ran.code == 0, ran
    assert "module" not in started(amends, "e")
    (amends.place / "parents.py").write_text(
        "import amends, shop.sagas\n"
        '@amends.saga("parent")\nasync def parent(s: amends.Work) -> None:\n    await s.call(shop.sagas.dies)\n',
        encoding="utf-8",
    )
    mend(amends)
    assert amends("run", "parents:parent", "--id", "p").code == 0
    (child,) = amends("saga", "list", "--parent", "p", "--json").of_type("saga")
    assert started(amends, str(child["id"]))["module"] == "shop.sagas"


def test_a_name_in_a_journal_that_is_no_module_is_not_put_into_a_command(amends: Shell) -> None:
    """As a planted journal could have it: what is shown to be copied is a module's name, or the placeholder."""
    from amends.core.events import SagaStarted, declared_in, resuming

    def begun(module: str) -> SagaStarted:
        return SagaStarted(definition="d", version=1, input=None, actor="a", env="", labels={}, module=module)

    for name in ("x; rm -rf .", "--journal=/tmp/x", "a..b", "a/b", "$(id)", "a b", ".", "é\n"):
        assert (declared_in(begun(name)), resuming(begun(name))) == ("", "amends resume")
    assert resuming(begun("shop.sagas")) == "amends resume shop.sagas"


def test_a_new_project_has_its_module_configured(amends: Shell) -> None:
    assert amends("new", "mine").code == 0
    text = (amends.place / "mine" / "amends.toml").read_text(encoding="utf-8")
    assert 'modules = ["shelf"]' in text


def test_the_shell_is_offered_ids_and_modules_and_nothing_is_imported_for_it(amends: Shell) -> None:
    assert amends("run", "shop.sagas:stock", "--id", "inc-1").code == 4
    assert amends("run", "shop.sagas:dies", "--id", "d-1").code == 9
    (amends.place / "imported").unlink()
    configure(amends, '["other.place"]')

    def offered(line: str) -> list[str]:
        words = line.split(" ")
        env = {**os.environ, "_AMENDS_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
        program = "from amends.cli.main import main; main([])"
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=amends.place,
            env=env,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.stderr == "", done
        return [each.partition(",")[2] for each in done.stdout.splitlines() if each]

    assert offered("amends saga show ") == ["d-1", "inc-1"]
    assert offered("amends saga cancel in") == ["inc-1"]
    assert offered("amends incident retry ") == ["inc-1/1"]
    assert offered("amends approval grant ") == []
    assert offered("amends resume ") == ["other.place", "shop"]
    assert offered("amends resume shop.") == ["shop.sagas"]
    assert offered("amends work --module o") == ["other.place"]
    assert offered("amends saga show --journal nowhere.db ") == []
    assert not (amends.place / "imported").exists()
