"""Whatever goes wrong is one line on stderr that says what to do, and exit code 2; nothing was done."""

from pathlib import Path
from typing import IO, cast

import apsw
import pytest

from amends.runtime.declare.names import login
from tests.cli.shell import PATIENCE_S, Shell

NO_SUCH = [
    ("nope:x", "there is no module nope; looked in "),
    ("package.nope:x", "there is no module package.nope; looked in "),
    ("shop:bye", "module shop has no saga 'bye'; did you mean shop:buy? it has buy, chat, deliver, "),
    ("shop:NOT_A_SAGA", "module shop has no saga 'NOT_A_SAGA'; it has buy, chat, deliver, guarded, "),
    ("shop", "module shop has to be followed by a saga; did you mean shop:buy? it has buy, "),
    ("shop:", "'shop:' does not name a saga; write it as module:saga"),
    (":buy", "':buy' does not name a saga; write it as module:saga"),
    ("shop.py:buy", "shop.py is a file; name the module, as in shop"),
    ("./deep/shop.py:buy", "./deep/shop.py is a file; name the module, as in deep.shop"),
    ("lacking:x", "module lacking cannot be imported: ModuleNotFoundError: No module named 'bank' ("),
    ("torn:x", "module torn cannot be imported: "),
    ("leaving:x", "module leaving cannot be imported: SystemExit: 3 ("),
    ("broken:x", "module broken cannot be imported: ZeroDivisionError: division by zero ("),
    ("empty:x", "module empty has no saga; decorate an async function with @saga(name)"),
    ("wrong:x", "module wrong cannot be imported: TopicError: 'Not A Topic' is not a topic"),
]


@pytest.fixture
def modules(amends: Shell) -> Shell:
    """Modules that cannot be used, each in its own way."""
    (amends.place / "package").mkdir()
    sources = {
        "package/__init__": "",
        "lacking": "import bank",
        "torn": "def f(:",
        "leaving": "raise SystemExit(3)",
        "broken": "x = 1\ny = x / 0",
        "empty": "",
        "wrong": "import amends\namends.action('Not A Topic')(print)",
    }
    for name, source in sources.items():
        (amends.place / f"{name}.py").write_text(source, encoding="utf-8")
    return amends


@pytest.mark.parametrize(("target", "complaint"), NO_SUCH, ids=[target for target, _ in NO_SUCH])
def test_a_saga_that_cannot_be_found(modules: Shell, target: str, complaint: str) -> None:
    assert modules.here("run", target).complaint.startswith(complaint)
    assert not (modules.place / "amends.db").exists()


def test_a_saga_where_a_module_is_wanted(amends: Shell) -> None:
    complaint = amends.here("resume", "shop:buy", "--journal", "shop.py").complaint
    assert complaint == "'shop:buy' is not a module; name it alone, as in shop"


def test_where_a_module_breaks_is_told(modules: Shell) -> None:
    assert modules.here("resume", "broken", "--journal", "shop.py").complaint.endswith("broken.py:2)")
    assert "torn.py:1: " in modules.here("run", "torn:x").complaint


BAD_INPUTS = [
    ('{"item": "lamp",\n "cents": }', "--input is not JSON: line 2, column 11: Expecting value"),
    ('{"item": 1, "item": 2}', "the input has the key 'item' twice in one object"),
    ('{"item": NaN}', "the input holds NaN, which is not JSON"),
    ("[" * 100_000, "--input is nested too deeply"),
    ("", "--input is not JSON: line 1, column 1: "),
    ("1" * 5000, "--input cannot be read: Exceeds the limit"),
    ("5", "saga shop.buy takes an object of inputs, not 5; it takes item, cents"),
    ('{"item": "x"}', "saga shop.buy needs cents; give it with --input '{\"cents\": …}'"),
    ('{"item": "x", "cents": 1, "more": 1}', "saga shop.buy has no input 'more'; it takes item, cents"),
    ('{"item": "x", "cent": 1}', "saga shop.buy has no input 'cent'; did you mean cents?"),
    ('{"item": "x", "cents": 1e999}', "saga shop.buy: cents has to be a whole number, not inf"),
    ('{"item": "x", "cents": 12345678901234567890}', "saga shop.buy: input.cents is an integer past 2**53"),
    ('{"item": "\\ud800", "cents": 1}', "saga shop.buy: input.item holds half a surrogate pair"),
    ('{"item": {"$secret": "x"}, "cents": 1}', "the key '$secret' is reserved"),
    ("@nope.json", "--input @nope.json: No such file or directory"),
    ("@.", "--input @.: Is a directory"),
    ("@latin.json", "latin.json is not UTF-8 text: byte 1 is 0xe4"),
]


@pytest.mark.parametrize(("given", "complaint"), BAD_INPUTS, ids=[given[:20] for given, _ in BAD_INPUTS])
def test_an_input_that_cannot_be_used(amends: Shell, given: str, complaint: str) -> None:
    (amends.place / "latin.json").write_bytes(b'"\xe4"')
    assert amends.here("run", "shop:buy", "--input", given).complaint.startswith(complaint)
    if (amends.place / "amends.db").exists():
        assert amends.here("saga", "list", "--json").records == []


def test_an_input_on_stdin_that_cannot_be_used(amends: Shell) -> None:
    complaint = amends("run", "shop:buy", "--input", "-", stdin=b"{").complaint
    assert complaint.startswith("stdin is not JSON: line 1, column 2: ")


WRONG_USAGE = [
    (["run"], "missing argument 'MODULE:SAGA|FILE'; see amends run --help"),
    (["run", "no.yaml"], "no.yaml: cannot be read: No such file or directory"),
    (["resume"], "there is no journal amends.db"),
    (["frob"], "no such command 'frob'; see amends --help"),
    (["saga", "list", "--journal", "mysql://x"], "mysql:// is no journal that amends knows"),
    (["saga", "frob"], "no such command 'frob'; see amends saga --help"),
    (["saga", "list", "--frob"], "no such option"),
    (["saga", "list", "--limit", "0"], "invalid value for '--limit'"),
    (["saga", "list", "--limit", "many"], "invalid value for '--limit'"),
    (["saga", "list", "--status", "done"], "'done' is not a status; they are running, waiting, "),
    (["saga", "show"], "missing argument 'ID'; see amends saga show --help"),
    (["saga", "cancel", "x"], "there is no journal amends.db"),
    (["incident", "retry", "x/1"], "there is no journal amends.db"),
    (["incident", "resolve", "x/1"], "missing option '--reason'"),
    (["incident", "assign", "x/1"], "missing option '--owner'"),
    (["incident", "comment", "x/1"], "missing option '--text'"),
    (["approval", "refuse", "x/1"], "missing option '--why'"),
    (["policy", "adopt", "policy.yaml"], "missing option '--why'"),
    (["run", "shop:chat", "--actor", "ann"], "'ann' is not an actor: write agent:<name>, "),
    (["run", "shop:chat", "--policy", "nope.yaml"], "nope.yaml: "),
    (["resume", "shop", "--policy", "nope.yaml", "--journal", "shop.py"], "nope.yaml: "),
    (["incident", "resolve", "x", "--reason", "y"], "'x' is not an incident's id; they look like "),
    (["incident", "resolve", "x/y", "--reason", "y"], "'x/y' is not an incident's id; they look like "),
    (["demo", "--pace", "-1"], "invalid value for '--pace'"),
    (["demo", "--keep", "shop.py"], "--keep shop.py: File exists; name a directory that can be made"),
]


@pytest.mark.parametrize(("words", "complaint"), WRONG_USAGE, ids=[" ".join(words) for words, _ in WRONG_USAGE])
def test_wrong_usage(amends: Shell, words: list[str], complaint: str) -> None:
    assert amends.here(*words).complaint.startswith(complaint)


@pytest.mark.parametrize("words", [[], ["saga"], ["incident"], ["approval"], ["policy"]], ids=" ".join)
def test_a_group_without_a_command_shows_what_there_is(amends: Shell, words: list[str]) -> None:
    said = amends.here(*words)
    assert (said.code, said.out) == (2, "")
    assert ("\nDecide:" if not words else "\nCommands:") in said.err


@pytest.mark.parametrize(
    ("label", "complaint"),
    [("team", "--label 'team' is not name=value"), ("=a", "--label '=a' is not name=value")],
)
def test_a_label_that_is_none(amends: Shell, label: str, complaint: str) -> None:
    assert amends.here("run", "shop:chat", "--label", label).complaint == complaint


def test_a_label_twice(amends: Shell) -> None:
    assert amends.here("run", "shop:chat", "--label", "a=1", "--label", "a=2").complaint == "--label a is given twice"


@pytest.mark.parametrize("saga", ["a/b", "", "x" * 200, "\x1b[2J"], ids=["slash", "empty", "long", "control"])
def test_an_id_that_is_none(amends: Shell, saga: str) -> None:
    said = amends.here("run", "shop:chat", "--id", saga)
    assert "is not a saga id" in said.complaint
    assert said.err.removesuffix("\n").isprintable()


# -- journals that cannot be used -------------------------------------------------------------------------------------

READING = [
    ["saga", "list"],
    ["saga", "show", "x"],
    ["incident", "list"],
    ["incident", "show", "x/1"],
    ["incident", "resolve", "x/1", "--reason", "y"],
]


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_looking_does_not_make_a_journal(amends: Shell, words: list[str]) -> None:
    complaint = amends.here(*words).complaint
    assert complaint == "there is no journal amends.db; give its path with --journal or in AMENDS_JOURNAL"
    assert not (amends.place / "amends.db").exists()


@pytest.mark.parametrize("words", [["saga", "cancel", "x"], ["incident", "retry", "x/1"]], ids=" ".join)
def test_asking_does_not_make_a_journal_either(amends: Shell, words: list[str]) -> None:
    assert amends.here(*words, "--module", "shop").complaint.startswith("there is no journal amends.db")
    assert amends.here("resume", "shop").complaint.startswith("there is no journal amends.db")
    assert not (amends.place / "amends.db").exists()


def test_a_journal_in_memory_cannot_be_looked_at(amends: Shell) -> None:
    assert "in memory is gone with its process" in amends.here("saga", "list", "--journal", ":memory:").complaint


UNUSABLE = [
    (".", "is not a regular file"),
    ("shop.py/amends.db", "shop.py is not a directory"),
    ("nope/amends.db", "No such file or directory"),
    ("mysql://x", "mysql:// is no journal that amends knows"),
    ("foreign.db", "is an SQLite database of another program"),
    ("noise.db", "the file is damaged"),
    ("newer.db", "was written by a newer version of amends"),
    ("open.db", "is open to other users (mode 666)"),
]


@pytest.fixture
def journals(amends: Shell) -> Shell:
    """Files that are no journals that this version can use."""
    for name in ("foreign.db", "noise.db", "newer.db", "open.db"):
        (amends.place / name).touch(0o600)
    (amends.place / "open.db").chmod(0o666)
    (amends.place / "noise.db").write_bytes(b"noise" * 1000)
    sql(amends.place / "foreign.db", "CREATE TABLE other (x)")
    sql(amends.place / "newer.db", f"PRAGMA application_id = {0x616D6E64}", "PRAGMA user_version = 99")
    return amends


def sql(path: Path, *statements: str) -> None:
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement)  # pyright: ignore[reportUnknownMemberType] - the stubs need Python 3.12
    connection.close()


@pytest.mark.parametrize(("journal", "complaint"), UNUSABLE, ids=[journal for journal, _ in UNUSABLE])
def test_a_journal_that_cannot_be_written(journals: Shell, journal: str, complaint: str) -> None:
    assert complaint in journals.here("run", "shop:chat", "--journal", journal).complaint


@pytest.mark.parametrize("journal", ["foreign.db", "noise.db", "newer.db", "open.db", "."])
def test_a_journal_that_cannot_be_read(journals: Shell, journal: str) -> None:
    complaint = dict(UNUSABLE)[journal]
    assert complaint in journals.here("saga", "list", "--journal", journal).complaint


def test_a_journal_that_was_tampered_with(amends: Shell) -> None:
    assert amends.here("run", "shop:chat", "--id", "c-1").code == 0
    sql(amends.place / "amends.db", "UPDATE entry SET body = replace(body, 'shop', 'shed')")
    assert "it does not match its hash" in amends.here("saga", "list").complaint
    assert "it does not match its hash" in amends.here("run", "shop:chat").complaint


def test_a_directory_where_nothing_can_be_written(amends: Shell) -> None:
    """Of a kind that stops root too."""
    complaint = amends.here("run", "shop:chat", "--journal", "/proc/self/amends.db").complaint
    assert complaint.startswith("/proc/self/amends.db cannot be made or opened: ")


# -- names that nothing answers to ------------------------------------------------------------------------------------


def test_an_unknown_saga_or_incident(amends: Shell) -> None:
    assert amends.here("run", "shop:chat", "--id", "c-1").code == 0
    unknown = "no saga has the id nope; `amends saga list` shows those that there are"
    assert amends.here("saga", "show", "nope").complaint == unknown
    assert amends.here("saga", "cancel", "nope", "--module", "shop").complaint == unknown
    assert amends.here("incident", "resolve", "nope/1", "--reason", "x").complaint == unknown
    for incident in ("nope/1", "c-1/1", "c-1", "\x1b"):
        assert amends.here("incident", "show", incident).complaint.startswith("no incident has the id ")
    assert "c-1" in amends.here("incident", "retry", "c-1/1", "--module", "shop").complaint
    assert "c-1" in amends.here("incident", "resolve", "c-1/1", "--reason", "x").complaint


def test_debug_shows_the_traceback(amends: Shell) -> None:
    said = amends("saga", "list", "--debug")
    assert said.code == 1
    assert "Traceback" in said.err
    assert said.err.splitlines()[-1].startswith("amends.errors.JournalAccessError: there is no journal")


def test_a_person_is_named_by_the_system_whatever_the_environment_says(amends: Shell) -> None:
    incident = amends.incident()
    (amends.place / "unjammed").touch()
    words = ("incident", "retry", incident, "--module", "shop", "--json")
    said = amends(*words, LOGNAME="kim", USER="kim", LNAME="", USERNAME="")
    assert said.of_type("entry")[0]["body"]["by"] == login()


def test_the_version_is_told(amends: Shell) -> None:
    assert amends.here("--version").out.startswith("amends, version ")


def test_the_help_of_every_command_can_be_asked_for(amends: Shell) -> None:
    commands = ["run", "resume", "demo", "saga list", "saga show", "saga cancel", "policy adopt", "policy show"]
    commands += ["approval list", "approval show", "approval grant", "approval refuse"]
    commands += [f"incident {verb}" for verb in ("list", "show", "assign", "comment", "retry", "resolve")]
    for command in commands:
        said = amends.here(*command.split(), "--help")
        assert said.code == 0
        assert "--json" in said.out
        assert "--debug" in said.out
        assert ("--journal" in said.out) == (command != "demo")
    assert "Exit codes:" in amends.here("--help").out


def test_a_list_for_a_reader_who_has_gone_ends_in_peace(amends: Shell) -> None:
    assert amends("run", "shop:chat").code == 0
    with amends.started("saga", "list", "--json") as process:
        cast("IO[str]", process.stdout).close()
        assert process.wait(PATIENCE_S) == 0
        assert cast("IO[str]", process.stderr).read() == ""
