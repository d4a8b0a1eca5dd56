"""Texts that a model is given in place of a tool's result: short, the same for every framework, and without secrets.

They are made of what is on record of a step, where no secret is; of an exception that is none of ours, only its class
is told. The first word says how it stands; the last sentence says what may be done now.
"""

from __future__ import annotations

from typing import Final

from amends.core.words.values import BUILT_IN
from amends.errors import (
    AmendsError,
    ApprovalPending,
    DeadlockError,
    DivergedError,
    InputError,
    RefusedError,
    SessionOverError,
    StepDeniedError,
    StepError,
    StepFailedError,
    StepFatalError,
    StepLostError,
    UnknownCheckpointError,
)
from amends.runtime.saga.rewind import Feedback

LONGEST: Final = 800


def text_for_model(error: BaseException) -> str:
    """Say what became of a tool's call that has no result."""
    match error:
        case ApprovalPending():
            said = (
                f"Waiting: {error.topic} has not been done; {error.why} to approve it ({error.approval}). "
                "Asked for again under the same call, it goes on once they have answered."
            )
        case StepDeniedError():
            rule = f"Rule {error.rule}: " if error.rule else ""
            said = (
                f"Denied: {error.topic} was not done. {rule}{_sentence(error.reason)} Go another way, or ask the user."
            )
        case DeadlockError():
            said = f"Failed: {error.topic} was not done: what it needs is held by other work. Try again later."
        case StepFailedError():
            said = (
                f"Failed: {error.topic} was not done, and nothing of it stands. {_sentence(error.reason)} "
                "It was tried as often as it may be: go another way."
            )
        case StepFatalError():
            stands = "certainly did not happen" if error.happened is False else "may have happened in part"
            said = f"Failed for good: {error.topic} {stands}. {_sentence(error.reason)} All of this work is taken back."
        case StepLostError():
            said = (
                f"Lost: nobody knows whether {error.topic} happened. {_sentence(error.reason)} Do not do it again; "
                "it is taken back as far as that is known."
            )
        case StepError() | RefusedError() | InputError() | UnknownCheckpointError():
            said = f"Refused: {_sentence(str(error))}"
        case AmendsError():
            said = f"Stopped: {_sentence(str(error))}"
        case _:
            said = f"Failed: it raised {type(error).__name__}."
    return said if len(said) <= LONGEST else f"{said[: LONGEST - 1]}…"


def text_or_raise(error: BaseException) -> str:
    """The text for the model, where the run goes on. Raises the error where it has to end: what is fatal rolls it back,
    a session that is over takes no more steps, and of anything else that was raised nobody knows what it means.
    """
    told = StepError | InputError | RefusedError | UnknownCheckpointError
    if not isinstance(error, told) or isinstance(error, StepFatalError | SessionOverError | DivergedError):
        raise error
    return text_for_model(error)


def text_of_rollback(feedback: Feedback) -> str:
    """Say what was taken back of the work, for the model to go another way."""
    own = [one for one in feedback.taken_back if not one.topic.startswith(BUILT_IN)]
    undone = ", ".join(f"{one.topic} (step {one.step})" for one in own) or "nothing, as nothing stood"
    said = f"Taken back: {undone}. Why: {_sentence(feedback.why)} All that came before stands: go another way."
    return said if len(said) <= LONGEST else f"{said[: LONGEST - 1]}…"


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return text if not text or text.endswith((".", "!", "?")) else f"{text}."
