"""Sagas for AI agents. Every action knows how to make amends.

The public names stand in `public`; they come in with the first one that is used, so that the command line, which needs
few of them, starts at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amends.public import *  # noqa: F403 - for whoever reads types: at run time, see below
    from amends.public import __all__ as __all__

__version__ = "0.1.0"

_MOVED = {
    name: (module, name)
    for module, names in (
        ("amends.notify", "Command NoticeFile Webhook WebhookRefusedError verify_webhook"),
        (
            "amends.types",
            (
                "ApprovalRow Attempt Attempts Check Child Contract Document Documents Feedback IncidentKind LockRow"
                " PlannedStep RollbackPlan StepStatus TakenBack ToCheckpoint"
            ),
        ),
        (
            "amends.errors",
            (
                "DocumentConflictError PastPivotError PolicyError PolicyNotInForceError RefusedError"
                " SecretUnavailableError UnknownApprovalError UnknownCheckpointError UnverifiedError WaitTimeoutError"
            ),
        ),
    )
    for name in names.split()
} | {"Asking": ("amends.types", "Approval"), "feedback": ("amends", "reasons")}
"""Names that were public here until 0.1, and where they are: they go on working for one release."""


def __getattr__(name: str) -> object:
    if (name.startswith("__") and name != "__all__") or _is_module(name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _MOVED:
        return _moved(name)
    public = import_module("amends.public")
    names = {each: getattr(public, each) for each in (*public.__all__, "__all__")}
    globals().update(names)
    try:
        return names[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def _is_module(name: str) -> bool:
    """Whether it is one of our modules that nobody has imported yet: `from amends import text` asks here first."""
    from importlib.util import find_spec  # the command line gets by without

    return name.islower() and find_spec(f"{__name__}.{name}") is not None


def _moved(name: str) -> object:
    import warnings  # only for whoever still uses one

    module, new = _MOVED[name]
    warnings.warn(
        f"amends.{name} is {module}.{new} now; the old name goes with the next release",
        DeprecationWarning,
        stacklevel=3,
    )
    return getattr(import_module(module), new)


def __dir__() -> list[str]:
    public = import_module("amends.public")
    return sorted({*globals(), *public.__all__})
