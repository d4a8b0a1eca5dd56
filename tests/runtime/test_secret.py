"""Secrets: what the journal keeps of them, and where their values never show."""

import base64
import hashlib
import json
from collections.abc import Iterator
from typing import cast
from urllib.parse import quote, quote_plus

import pytest

from amends.core.words.values import SECRET_MARK as MARK, Json, canonical
from amends.errors import NotJsonError, SecretUnavailableError
from amends.secrets import MOST, DigestKey, Secret, digests_by, is_alike, mask, scrub, secrets_in, unmask

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


# -- digests that nobody can guess ------------------------------------------------------------------------------------

PIN = "4711"
KEY = DigestKey.of(b"k" * 32)


@pytest.fixture
def keyed() -> Iterator[None]:
    token = digests_by.set(KEY)
    yield
    digests_by.reset(token)


@pytest.mark.usefixtures("keyed")
def test_a_short_secret_cannot_be_found_from_its_digest_by_trying() -> None:
    """Ten thousand values are tried in a moment by who knows the salt; who does not know the key tries for ever."""
    kept = Secret(PIN).stored(SALT)
    assert kept.startswith(f"hmac-sha256:{KEY.name}:")
    digest = kept.rpartition(":")[2]
    tried = (f"{SALT}\x1f{number:04}".encode() for number in range(10_000))
    assert digest not in {hashlib.sha256(one).hexdigest() for one in tried}


@pytest.mark.usefixtures("keyed")
def test_each_key_and_each_saga_makes_another_digest_and_a_key_s_name_does_not_tell_it() -> None:
    other = DigestKey.of(b"o" * 32)
    mine = Secret(PIN).stored(SALT)
    token = digests_by.set(other)
    assert mine != Secret(PIN).stored(SALT)
    digests_by.reset(token)
    assert mine == Secret(PIN).stored(SALT) != Secret(PIN).stored("s2")
    assert KEY.key.hex() not in mine


def test_without_a_key_the_digest_is_as_it_always_was() -> None:
    token = digests_by.set(None)
    kept = Secret(PIN).stored(SALT)
    digests_by.reset(token)
    assert kept == "sha256:" + hashlib.sha256(f"{SALT}\x1f{PIN}".encode()).hexdigest()


def form(key: DigestKey | None, value: object) -> Json:
    token = digests_by.set(key)
    try:
        return stored(value)
    finally:
        digests_by.reset(token)


LOST = "hmac-sha256:0badc0de:" + "0" * 64


@pytest.mark.usefixtures("keyed")
@pytest.mark.parametrize("old", [None, KEY, DigestKey.of(b"o" * 32)])
def test_what_is_on_record_is_compared_in_its_own_form(old: DigestKey | None) -> None:
    pin, other = Secret(PIN), Secret("0815")
    recorded = form(old, {"n": 1, "pins": [pin, Secret.env("X")]})
    asked = stored({"n": 1, "pins": [pin, Secret.env("X")]})
    assert is_alike(asked, recorded, [pin, Secret.env("X")], SALT)
    assert not is_alike(stored({"n": 1, "pins": [other, Secret.env("X")]}), recorded, [other, Secret.env("X")], SALT)
    assert not is_alike(stored({"n": 2, "pins": [pin, Secret.env("X")]}), recorded, [pin, Secret.env("X")], SALT)
    assert not is_alike(stored({"n": 1, "pins": [pin]}), recorded, [pin], SALT)
    assert not is_alike(stored({"n": 1, "pins": [pin, Secret.env("Y")]}), recorded, [pin, Secret.env("Y")], SALT)
    (again, _) = secrets_in(unmask(recorded, SALT, [pin]))
    assert again is pin


@pytest.mark.usefixtures("keyed")
def test_one_whose_key_is_gone_agrees_with_any_secret_in_its_place_and_with_nothing_else() -> None:
    recorded: Json = {"pin": {MARK: LOST}}
    pin, env = Secret(PIN), Secret.env("X")
    assert is_alike(stored({"pin": pin}), recorded, [pin], SALT)
    assert not is_alike({"pin": PIN}, recorded, [pin], SALT)
    assert not is_alike(stored({"pin": pin, "more": 1}), recorded, [pin], SALT)
    assert not is_alike(stored({"pin": env}), {"pin": {MARK: "env:Y"}}, [env], SALT)


# -- in the words of others -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spelled",
    [
        "a/b+c d\"e'é-token",
        json.dumps("a/b+c d\"e'é-token")[1:-1],
        repr("a/b+c d\"e'é-token")[1:-1],
        quote("a/b+c d\"e'é-token"),
        quote("a/b+c d\"e'é-token", safe=""),
        quote_plus("a/b+c d\"e'é-token"),
        base64.b64encode("a/b+c d\"e'é-token".encode()).decode(),
        base64.urlsafe_b64encode("a/b+c d\"e'é-token".encode()).decode().rstrip("="),
        "a/b+c d\"e'é-token".encode().hex(),
    ],
)
def test_the_usual_spellings_of_a_value_are_found_too(spelled: str) -> None:
    said = scrub(f"<{spelled}>", [Secret("a/b+c d\"e'é-token")])
    assert said.rstrip("=>") == "<[secret]".rstrip(">")


def test_each_line_of_a_long_secret_is_found_alone() -> None:
    assert scrub("+first-line\n+other-line\n", [Secret("first-line\nother-line\n")]) == "+[secret]\n+[secret]\n"


def test_a_value_that_was_revealed_is_looked_for_everywhere_and_a_short_one_only_where_it_was_given() -> None:
    Secret("revealed-just-now").reveal()
    Secret("stored-just-now").stored(SALT)
    Secret("nk-7!").reveal()
    assert scrub("revealed-just-now stored-just-now nk-7!") == "[secret] [secret] nk-7!"
    assert scrub("nk-7!", [Secret("nk-7!")]) == "[secret]"


def test_a_process_remembers_the_newest_values_and_not_all() -> None:
    Secret("the-oldest-value").reveal()
    for number in range(MOST):
        Secret(f"value-number-{number:04}").reveal()
    assert scrub("the-oldest-value value-number-0001") == "the-oldest-value [secret]"


def test_a_value_that_is_no_proper_text_is_found_all_the_same() -> None:
    odd = "\ud800-no-text\udc80"
    assert Secret(odd).stored(SALT) == Secret(odd).stored(SALT)
    assert scrub(f"<{odd}>", [Secret(odd)]) == "<[secret]>"
