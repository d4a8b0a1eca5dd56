"""What amends logs: on one line each, harmless to a terminal, and without secrets."""

import io
import logging

from amends.logs import logger, searched_for
from amends.secrets import Secret

FORGED = "2026-01-01 INFO amends.gate: approval granted by person:kim"


def logged(name: str, *said: object, error: BaseException | None = None, secrets: tuple[Secret, ...] = ()) -> str:
    """What a plain handler writes of one record."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    log = logger(name)
    log.addHandler(handler)
    try:
        log.error(*said, exc_info=error, extra=searched_for(secrets))
    finally:
        log.removeHandler(handler)
    return stream.getvalue()


def raised(error: BaseException, because: BaseException | None = None) -> BaseException:
    try:
        raise error from because
    except BaseException as exc:  # noqa: BLE001 - it is what a log is given
        return exc


def test_a_newline_in_words_of_others_forges_no_line() -> None:
    said = logged("amends.test", "saga %s: %s", "s1", f"down\n{FORGED}\x1b[2K\r")
    assert said == f"ERROR amends.test: saga s1: down\\n{FORGED}\\x1b[2K\\r\n"


def test_nor_does_one_in_an_exception_in_its_notes_or_in_what_led_to_it() -> None:
    noted = raised(ValueError(f"a\n{FORGED}\x1b[1m"), raised(LookupError(f"b\n{FORGED}")))
    noted.add_note(f"c\n{FORGED}")
    group = raised(ExceptionGroup(f"d\n{FORGED}", [KeyError(f"e\n{FORGED}")]), noted)
    said = logged("amends.test", "it failed", error=group)
    assert FORGED not in said.splitlines()
    assert not any(line.startswith(FORGED[:10]) for line in said.splitlines())
    assert "\x1b" not in said
    assert said.count(FORGED) == 5
    assert "ValueError: a\\n" in said
    assert "direct cause" in said


def test_a_secret_is_in_no_part_of_a_record() -> None:
    short, long = "z-9k!", "a-long-token-of-the-bank"
    assert Secret(long).reveal() == long
    noted = raised(ValueError(f"<{short}> <{long}>"), raised(LookupError(f"<{short}> <{long}>")))
    said = logged("amends.test", "with %s", f"<{short}> <{long}>", error=noted, secrets=(Secret(short),))
    assert said.count("<[secret]> <[secret]>") == 3
    assert short not in said
    assert long not in said


def test_no_handler_gets_the_exception_or_the_secrets() -> None:
    kept: list[logging.LogRecord] = []

    class Keeps(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            kept.append(record)

    handler = Keeps()
    log = logger("amends.test")
    log.addHandler(handler)
    try:
        log.error("it failed", exc_info=ValueError("a"), extra=searched_for((Secret("z-9k!"),)))
    finally:
        log.removeHandler(handler)
    (record,) = kept
    assert record.exc_info is None
    assert record.exc_text == "Traceback (most recent call last):\nValueError: a"
    assert "secrets" not in " ".join(record.__dict__)


def test_an_exception_whose_words_cannot_be_had_is_logged_all_the_same() -> None:
    class Odd(Exception):  # noqa: N818 - somebody else's
        def __str__(self) -> str:
            raise RuntimeError

    assert "Odd: [its words could not be had: RuntimeError]" in logged("amends.test", "it failed", error=Odd())


def test_a_logger_is_made_plain_once() -> None:
    assert logger("amends.test") is logger("amends.test")
    assert len(logger("amends.test").filters) == 1


def test_a_circle_of_causes_ends() -> None:
    one, other = ValueError("one"), LookupError("other")
    one.__cause__, other.__cause__ = other, one
    assert logged("amends.test", "it failed", error=one).count("Traceback") == 2
