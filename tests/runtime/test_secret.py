"""Secrets: what the journal keeps of them, and where their values never show."""

import json
from typing import cast

import pytest

from amends.core.values import SECRET_MARK as MARK, Json, canonical
from amends.errors import NotJsonError, SecretUnavailableError
from amends.runtime.secret import Secret, mask, scrub, secrets_in, unmask

SALT = "s1"
VALUE = "hunter2"


def stored(value: object) -> Json:
    """A round trip through the journal."""
    return cast("Json", json.loads(canonical(mask(value, SALT))))


def test_a_secret_never_shows_itself() -> None:
    secret = Secret(VALUE)
    shown = [str(secret), repr(secret), f"{secret}", repr([secret]), "%s" % secret, repr({"a": secret})]  # noqa: UP031 - the old way must not leak either
    assert all(VALUE not in text for text in shown)
    assert secret.reveal() == VALUE


def test_the_journal_keeps_a_salted_digest() -> None:
    kept = canonical(mask({"token": Secret(VALUE), "list": [Secret(VALUE), 1]}, SALT))
    assert VALUE not in kept
    assert Secret(VALUE).stored("s1") != Secret(VALUE).stored("s2")
    assert Secret(VALUE).stored("s1") == Secret(VALUE).stored("s1")


def test_what_holds_no_secret_is_stored_as_it_is() -> None:
    value = {"a": [1, {"b": None}], "c": "text"}
    assert mask(value, SALT) == value


def test_a_secret_from_the_environment_is_kept_by_its_name_and_can_be_had_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOKEN", VALUE)
    kept = stored({"token": Secret.env("TOKEN")})
    assert kept == {"token": {MARK: "env:TOKEN"}}
    (again,) = secrets_in(unmask(kept, SALT))
    assert again.reveal() == VALUE
    monkeypatch.delenv("TOKEN")
    with pytest.raises(SecretUnavailableError, match="the environment has no TOKEN"):
        again.reveal()


def test_a_later_process_has_the_secret_without_its_value() -> None:
    (again,) = secrets_in(unmask(stored([Secret(VALUE)]), SALT))
    assert again.stored(SALT) == Secret(VALUE).stored(SALT)
    with pytest.raises(SecretUnavailableError, match=r"was not kept; pass it as Secret.env\(NAME\)"):
        again.reveal()


def test_the_same_process_has_it_with_its_value() -> None:
    known = Secret(VALUE)
    assert list(secrets_in(unmask(stored({"a": [known]}), SALT, [known]))) == [known]


def test_a_value_that_looks_like_a_stored_secret_is_refused() -> None:
    """Else whoever writes the arguments could have any variable of the environment read."""
    with pytest.raises(NotJsonError, match=r"'\$secret' is reserved"):
        mask({"a": {MARK: "env:AWS_SECRET_ACCESS_KEY"}}, SALT)


def test_a_secret_where_none_can_be_is_refused_without_showing_it() -> None:
    for value in ({"a": (Secret(VALUE),)}, {Secret(VALUE): 1}):
        with pytest.raises(NotJsonError) as caught:
            canonical(mask(value, SALT))
        assert VALUE not in str(caught.value)


def test_a_mark_that_is_no_text_is_only_data() -> None:
    assert unmask({MARK: 1}, SALT) == {MARK: 1}


def test_values_are_taken_out_of_texts() -> None:
    gone, empty = Secret.kept("sha256:00"), Secret("")
    assert scrub(f"login failed for {VALUE}", [gone, empty, Secret(VALUE)]) == "login failed for [secret]"


def test_a_secret_that_begins_with_another_is_scrubbed_whole() -> None:
    assert scrub("abc abcdef", [Secret("abc"), Secret("abcdef"), Secret("")]) == "[secret] [secret]"
