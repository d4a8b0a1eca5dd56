"""Times as people write them: one reading, wherever a command takes one."""

import time
from datetime import UTC, datetime

import pytest

from amends.cli.inputs import read_moment
from amends.errors import InputError
from amends.source.marked import age_s, duration_s

NOW = 1_800_000_000_000
MARCH = round(datetime(2026, 3, 31, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("0s", NOW),
        ("30s", NOW - 30_000),
        ("15m", NOW - 900_000),
        ("12h", NOW - 43_200_000),
        ("1000d", NOW - 86_400_000_000),
        ("2026-03-31", MARCH),
        ("20260331", MARCH),
        ("2026-03-31T00:00Z", MARCH),
        ("2026-03-31 02:00:00+02:00", MARCH),
    ],
)
def test_a_time_is_an_age_a_date_in_utc_or_a_time_with_its_zone(given: str, expected: int) -> None:
    assert read_moment(given, "--since", NOW) == expected


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "America/Los_Angeles"])
def test_where_it_is_read_makes_no_difference(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", zone)
        time.tzset()
        assert read_moment("2026-03-31", "--since", NOW) == MARCH
    time.tzset()


@pytest.mark.parametrize("given", ["2026-03-31T12:00", "2026-03-31 12:00:00"])
def test_a_time_without_its_zone_is_refused(given: str) -> None:
    with pytest.raises(InputError, match=r"--since '.*' does not say in which zone; add Z, or \+02:00"):
        read_moment(given, "--since", NOW)


@pytest.mark.parametrize("given", ["yesterday", "-3d", "3w", "3", "", "2026-13-01", "1.5d"])
def test_what_is_no_time_is_refused(given: str) -> None:
    with pytest.raises(InputError, match="is no time; write 7d or 12h for so long ago, 2026-03-31, or"):
        read_moment(given, "--since", NOW)


def test_an_age_may_be_nothing_or_longer_than_a_year_and_a_duration_may_not() -> None:
    for text in ("0d", "367d"):
        assert duration_s(text) is None
        assert age_s(text) is not None
    assert duration_s("90m") == age_s("90m") == 5400
