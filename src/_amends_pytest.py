"""The pytest plugin: the fixture `drill` and the mark of the same name. It imports amends only when one is used.

It stands outside the package on purpose: a plugin is imported before coverage is measured, and with it its package.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from amends.drill import Report

_MARK = (
    "drill(saga, input, **options): rehearse a saga before the test; without arguments, options of the fixture `drill`"
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARK)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever uses the fixture carries the mark: `-m drill` runs all drills, `-m "not drill"` none."""
    for item in items:
        if "drill" in getattr(item, "fixturenames", ()) and item.get_closest_marker("drill") is None:
            item.add_marker("drill")


@pytest.fixture
def drill(request: pytest.FixtureRequest) -> Callable[..., Report]:
    """Call it with a saga and its input: the test fails where the world does not come back. Gives the report."""
    item: pytest.Item = request.node

    def rehearse(definition: Any, input: object = None, **options: Any) -> Report:  # noqa: ANN401 - as `drill` takes them
        return _rehearsed(item, definition, input, {**_options(item), **options})

    return rehearse


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    marker = item.get_closest_marker("drill")
    if marker is not None and marker.args:
        definition, *given = marker.args
        _rehearsed(item, definition, given[0] if given else None, _options(item))


def _options(item: pytest.Item) -> dict[str, Any]:
    """Those of all marks around the test, the closest last."""
    found: dict[str, Any] = {}
    for marker in reversed(list(item.iter_markers("drill"))):
        found.update(marker.kwargs)
    return found


def _rehearsed(item: pytest.Item, definition: Any, given: object, options: dict[str, Any]) -> Report:  # noqa: ANN401 - a saga
    from amends.drill.fixture import rehearsed

    __tracebackhide__ = True
    strict = bool(options.pop("strict", False))
    report = rehearsed(definition, given, options)
    item.user_properties.append(("drill", report.counted()))
    item.add_report_section("call", "drill", str(report))
    if not report.passed and (strict or report.has_failed):
        pytest.fail(str(report), pytrace=False)
    return report
