"""Every exception of amends, in one tree, split by who has to act.

AmendsError
├── said by an action about itself (users raise these)
│   ├── Fatal                   no retry, roll back now; happened=False certifies that nothing happened
│   │   └── Abort               said by a saga's function: the agent gives up, take everything back
│   ├── NotDone                 nothing happened, certainly; trying again is safe
│   │   ├── Retry               the same, with the delay that the action asks for
│   │   └── Flawed              (in a validation) the result cannot be used, and this is why
│   ├── ChangedSince            (in a compensation) someone changed it since; do not overwrite
│   ├── CommandError            (of a saga's file) how a command ended says nothing of the world
│   └── ServerError             (of a server) what it answered, or that it did not, says nothing of the world
├── said by a saga's function about its work (users raise these)
│   ├── Complete                the work is done, before the function's end
│   ├── CallPerson              nothing is taken back: a person has to decide
│   └── Detach                  (leaving a session's block) the session stays open: somebody goes on with it later
├── StepError                   what `s.do` raises when a step has ended badly
│   ├── StepFatalError          also a Fatal
│   ├── StepFailedError         also a NotDone: nothing happened, and the tries are used up
│   │   └── DeadlockError       it and others would have waited for each other for ever; this one gives way
│   ├── StepLostError           nobody knows whether it happened
│   ├── StepDeniedError         the gate said no
│   └── UnverifiedError         an assertion of `verify=` does not hold
├── RefusedError                a request that the saga's state does not allow
│   ├── PastPivotError          it would roll back over an irreversible step
│   ├── SessionOverError        a session that has ended, goes back or was left is asked for another step
│   │   └── SessionNotOpenError (of a server) it was started anew, or has let the session go: open it again
│   ├── ProofError              a decision is not proved by a signature, or a journal has another root
│   │   └── UnsignedError       (of a server) it has to be signed, and this is the text
│   ├── PolicyNotInForceError   a policy is named that nobody has adopted on this journal
│   └── DivergedError           the code asks for something else than the journal remembers
├── WaitTimeoutError            nobody sent what a saga waited for in time; also a TimeoutError
├── DirectCallError             an action was called in a saga's function without `s.do`; nothing was done
├── DeclarationError            an action or a definition is declared wrongly
│   └── TopicError              a topic's name is not one
├── InputError                  a value that cannot be stored
│   ├── MisfitError             not what was declared
│   ├── NotJsonError            outside the JSON domain
│   └── TooLargeError           past a size limit
├── UnknownError                a name that nothing answers to
│   ├── UnknownSagaError
│   ├── UnknownIncidentError
│   ├── UnknownApprovalError
│   ├── UnknownTargetError
│   ├── UnknownActionError
│   ├── UnknownDefinitionError
│   ├── UnknownCheckpointError
│   └── UnknownChangesetError
├── MistakesError               a file that a person wrote cannot be read, or says what it cannot say
│   ├── PolicyError             a policy's
│   ├── SagaFileError           a saga's, in YAML
│   └── ContractsError          that of a gateway: how each tool is taken back
├── UnknownCallerError          (of a server) nobody known asks: no token, or one that is good no more
├── ForbiddenError              (of a server) the caller is known, and may not do this
├── DocumentConflictError       someone else changed the document, or is changing it; nothing was written
├── SecretUnavailableError      the value of a secret is not kept; only its digest is
├── EngineError                 an engine of others, which should drive sagas, does not answer or refuses
├── WebhookRefusedError         what came as a webhook is not from who signs them, or not of now
├── EvidenceError               what should be evidence cannot be read or made
│   └── EvidenceKeyError        the key that signs is missing, not safe, or not the journal's
├── ChangesetError              file work that could not be done; the tree is as it was
│   ├── PathError               a path that leaves the tree, that no file can have, or that is not in conflict
│   ├── LimitError              a step changed more, or elsewhere, than it may
│   ├── ViewError               tools have no view of the tree here, or one could not be started in it
│   ├── RootError               the tree is missing, another one, read-only, or cannot be read
│   ├── ChangesetBusyError      another process has it open, or lands
│   ├── ChangesetLifeError      where it stands in its life, this cannot be done
│   ├── ChangesetFullError      no room on the disk
│   ├── ChangesetDamagedError   what is stored of it does not verify
│   └── LandingStuckError       a landing that could be brought neither forward nor back: a person is needed
└── JournalError                the store
    ├── JournalConflictError    another entry came first
    │   └── LeaseLostError      another worker drives this saga now
    ├── JournalStoppedError     the writer ended for good after an I/O error
    ├── JournalFullError        no room on the disk; nothing was written
    ├── JournalBusyError        another program holds the file
    ├── JournalAccessError      the file or its directory cannot be read or written
    ├── JournalDamagedError     what is stored does not verify
    ├── JournalVersionError     written by a newer version
    ├── JournalMovedError       copied to another place
    ├── JournalUnreachableError the server that has it does not answer
    ├── PayloadRemovedError     what an entry held was removed, as retention asks; only its digest is kept
    └── ForkedError             used in a child of the process that opened it

Reported                        no error, and no Exception: how a call ended that was made elsewhere
ApprovalPending                 no error, and no Exception: people are asked, and a step's caller does not wait
"""

from __future__ import annotations


class AmendsError(Exception):
    """The root: everything that amends raises on purpose."""


class Fatal(AmendsError):  # noqa: N818 - the product's word, said by users in their actions
    """Raised by an action: do not try again, roll back now.

    It speaks of retrying, not of the world: the failed step is compensated as uncertain, unless
    `happened=False` certifies that there is nothing to take back.
    """

    def __init__(self, message: str = "", *, happened: bool | None = None) -> None:
        super().__init__(message)
        self.happened = happened


class Abort(Fatal):
    """Raised by a saga's function: I give up, take everything back. The reason is on record."""


class NotDone(AmendsError):  # noqa: N818 - the product's word, said by users in their actions
    """Raised by an action: I certify that nothing happened."""


class Retry(NotDone):
    """Raised by an action: nothing happened, and ask me again after this many seconds."""

    def __init__(self, message: str = "", *, after: float) -> None:
        super().__init__(message)
        self.after = after


class Flawed(NotDone):
    """Raised by a validation: what the action returned cannot be used, and this is why."""


class ChangedSince(AmendsError):  # noqa: N818 - the product's word, said by users in their compensations
    """Raised by a compensation: someone changed it since, and I will not overwrite that."""


class CommandError(AmendsError):
    """A command ended in a way that its file gives no meaning to: nobody knows what it did."""


class ServerError(AmendsError):
    """A server that was called ended, broke the connection or answered with an error: nobody knows what it did."""


class Complete(AmendsError):  # noqa: N818 - no error: the product's word, said by users in a saga's function
    """Raised in a saga's function, however deep: its work is done, with this result, and the rest is not run.

    `why` goes on record.
    """

    def __init__(self, result: object = None, *, why: str = "") -> None:
        super().__init__(why or "the work was done before the end of its function")
        self.result = result
        self.why = str(self)


class CallPerson(AmendsError):  # noqa: N818 - the product's word, said by users in a saga's function
    """Raised in a saga's function: take nothing back, and go no further before a person has decided.

    It becomes an incident. Retried, the function is called again, and the step that `step` names is tried again;
    cancelled, everything is taken back.
    """

    def __init__(self, why: str, *, step: str | None = None) -> None:
        super().__init__(why)
        self.step = step


class Detach(AmendsError):  # noqa: N818 - no error: the product's word, said by whoever leaves a session for a while
    """Leaves a session's block, and the session stays open. Also for a framework's own pause to be derived from."""


class ApprovalPending(BaseException):
    """A step waits for people, and its caller does not wait with it: asked for again under the same call, it goes on.

    No Exception, because frameworks tell a model of those as if the tool had answered. It leaves a session's block as
    `Detach` does. `approval` is the id to answer by, and `digest` of exactly what is shown.
    """

    def __init__(
        self, *, approval: str, topic: str, arguments: object, rule: str, why: str, digest: str, expires_at: int
    ) -> None:
        super().__init__(f"{topic} waits for a person's approval, {approval}" + (f": {why}" if why else ""))
        self.approval, self.topic, self.arguments = approval, topic, arguments
        self.rule, self.why = rule, why
        self.digest, self.expires_at = digest, expires_at


class Reported(BaseException):
    """Raised by a function whose call is made elsewhere: how it ended there, as whoever made it says.

    No Exception: what an action's contract says of its exceptions is nothing to this. `outcome` is an Outcome.
    """

    def __init__(self, outcome: object) -> None:
        super().__init__(outcome)
        self.outcome = outcome


class StepError(AmendsError):
    """A step has ended badly; leaving the saga's function, it starts the rollback.

    `happened` is False where certainly nothing happened, and None where nobody knows. `reason` is what was said, and
    `where` the place in somebody's code that raised it, as `shop/tools.py:7, in charge`; empty where there is none.
    """

    happened: bool | None = None

    def __init__(self, message: str, *, step: str, topic: str, where: str = "") -> None:
        super().__init__(f"{topic} (step {step}): {message}" + (f" ({where})" if where else ""))
        self.step = step
        self.topic = topic
        self.reason = message
        self.where = where


class StepFatalError(StepError, Fatal):
    """The action raised Fatal."""

    def __init__(self, message: str, *, step: str, topic: str, happened: bool | None = None, where: str = "") -> None:
        StepError.__init__(self, message, step=step, topic=topic, where=where)
        self.happened = happened


class StepFailedError(StepError, NotDone):
    """Nothing happened, and the tries are used up."""

    happened = False


class DeadlockError(StepFailedError):
    """A resource it needs is held by a saga that waits for what this one holds; its rollback lets the others go on."""


class StepLostError(StepError):
    """Nobody knows whether it happened."""


class StepDeniedError(StepError):
    """The gate said no; nothing was dispatched. `rule` is the one that spoke; empty where people refused."""

    happened = False

    def __init__(self, message: str, *, step: str, topic: str, rule: str = "") -> None:
        super().__init__(message, step=step, topic=topic)
        self.rule = rule


class UnverifiedError(StepError):
    """The definition came to its end, and an assertion does not hold. `calls`: a person is called, not rolled back."""

    def __init__(self, message: str, *, step: str, topic: str, calls: bool = False) -> None:
        super().__init__(message, step=step, topic=topic)
        self.calls = calls


class WaitTimeoutError(AmendsError, TimeoutError):
    """The time of `s.wait_for` is up; this is remembered, and raised again at the same place."""

    def __init__(self, message: str, *, name: str) -> None:
        super().__init__(message)
        self.name = name


class RefusedError(AmendsError):
    """The saga's state does not allow this request; nothing was recorded."""


class PastPivotError(RefusedError):
    """A rollback would have to cross an irreversible step that took effect."""


class PolicyNotInForceError(RefusedError):
    """The policy that is named is not the one in force; nothing was opened. The message has the command to adopt it."""


class ProofError(RefusedError):
    """A decision is not proved by a signature of an enrolled person, or a journal has another root than was told."""


class UnsignedError(ProofError):
    """Said by a server: a decision has to be signed, and `statement` is the text.

    `statements`: of several that are signed once, the text of each, which the one to sign lists by their digests.
    """

    def __init__(self, message: str, statement: str = "", statements: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.statement = statement
        self.statements = statements


class SessionOverError(RefusedError):
    """The session has ended, goes back, or was left: it takes no more steps. The message says why."""


class SessionNotOpenError(SessionOverError):
    """A server does not have the session open: it was started anew, or let it go. Open it again, by its id."""


class DivergedError(RefusedError):
    """The definition asks for something else than the journal remembers."""


class DirectCallError(AmendsError):
    """A saga's function called an action directly, and not with `await s.do(…)`; nothing was done."""


class DeclarationError(AmendsError):
    """An action or a definition is declared wrongly."""


class TopicError(DeclarationError):
    """A topic is lower-case ASCII: letters, digits, `_`, `.`, `-`, at most 128 characters."""


class InputError(AmendsError):
    """A value that cannot be stored."""


class MisfitError(InputError):
    """A value is not what was declared: `expected` and `came` in words, and `inside`, where in the value that is."""

    def __init__(self, expected: str, came: str, *, inside: str = "", whose: str = "it") -> None:
        super().__init__(f"{whose}{inside} has to be {expected}, not {came}")
        self.expected, self.came, self.inside = expected, came, inside

    def at(self, part: str) -> MisfitError:
        """Put a part in front of the place that `inside` names."""
        self.inside = part + self.inside
        return self

    def said_of(self, whose: str) -> MisfitError:
        return MisfitError(self.expected, self.came, inside=self.inside, whose=whose)


class NotJsonError(InputError):
    """The value lies outside the JSON domain."""


class TooLargeError(InputError):
    """The value is past a size limit."""


class UnknownError(AmendsError):
    """A name that nothing answers to."""


class UnknownSagaError(UnknownError):
    """No saga has this id."""


def unknown_saga(saga: str, hint: str = "`amends saga list` shows those that there are") -> UnknownSagaError:
    return UnknownSagaError(f"no saga has the id {saga}; {hint}")


class UnknownIncidentError(UnknownError):
    """No incident has this id."""


class UnknownApprovalError(UnknownError):
    """No approval has this id."""


class UnknownTargetError(UnknownError):
    """Nobody of this name is told of anything."""


class UnknownActionError(UnknownError):
    """No action is registered under this topic and version."""


class UnknownDefinitionError(UnknownError):
    """No definition is registered under this name and version."""


class UnknownCheckpointError(UnknownError):
    """The saga has made no checkpoint of this name."""


class MistakesError(AmendsError):
    """A file is refused as a whole. `mistakes` are lines of the form `file:line: what, which, what to do`."""

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = tuple(mistakes)


class PolicyError(MistakesError):
    """A policy's file is refused as a whole."""


class SagaFileError(MistakesError):
    """A saga's file is refused as a whole; nothing of it is run."""


class ContractsError(MistakesError):
    """A gateway's contracts file is refused as a whole, or does not fit the tools that it speaks of."""


class UnknownChangesetError(UnknownError):
    """No changeset has this id."""


class DocumentConflictError(AmendsError):
    """Someone else changed this document since it was read, or a saga that has not ended is changing it.

    `document` is its name. Nothing was written.
    """

    def __init__(self, message: str, *, document: str) -> None:
        super().__init__(message)
        self.document = document


class SecretUnavailableError(AmendsError):
    """The journal keeps a secret's digest, never its value."""


class EngineError(AmendsError):
    """An engine of others does not answer, or refuses what it is told. What it should have heard is on record."""


class WebhookRefusedError(AmendsError):
    """A webhook is not signed by a known secret, or was sent too long ago."""


class UnknownCallerError(AmendsError):
    """Nobody known asks a server: there is no token, or one that is good no more."""


class ForbiddenError(AmendsError):
    """The caller is known, and may not do this."""


class EvidenceError(AmendsError):
    """Evidence cannot be read, or cannot be made."""


class EvidenceKeyError(EvidenceError):
    """The key that signs is missing, open to others, or not the one that the journal is signed by."""


class ChangesetError(AmendsError):
    """File work that could not be done; the tree is as it was."""


class PathError(ChangesetError):
    """A path that leaves the tree, that no file can have, or that is not in conflict where one was to be resolved."""


class LimitError(ChangesetError):
    """A step changed more, or elsewhere, than it may. `broken` says each limit in a sentence."""

    def __init__(self, message: str, *, broken: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.broken = broken


class ViewError(ChangesetError):
    """Tools have no view of the tree here, or one could not be started in it."""


class RootError(ChangesetError):
    """The tree is missing, another one, read-only, or cannot be read."""


class ChangesetBusyError(ChangesetError):
    """Another process has this changeset open, or lands in this tree."""


class ChangesetLifeError(ChangesetError):
    """Where the changeset stands in its life, this cannot be done."""


class ChangesetFullError(ChangesetError):
    """No room on the disk; nothing was changed."""


class ChangesetDamagedError(ChangesetError):
    """A stored changeset does not verify; nothing is acted upon."""


class LandingStuckError(ChangesetError):
    """A landing could be brought neither forward nor back; what is left is named, and a person is needed."""


class JournalError(AmendsError):
    """The store could not do what was asked."""


class JournalConflictError(JournalError):
    """Entry `after` is no longer the newest; nothing was written."""


class LeaseLostError(JournalConflictError):
    """Another worker drives this saga now; nothing was written."""


class JournalStoppedError(JournalError):
    """The writer ended for good after an I/O error: what was not acknowledged may or may not be on disk."""


class JournalFullError(JournalError):
    """No room on the disk; nothing was written."""


class JournalBusyError(JournalError):
    """Another program holds the file for too long."""


class JournalAccessError(JournalError):
    """The file or its directory cannot be read or written."""


class JournalDamagedError(JournalError):
    """Something stored does not verify; nothing is acted upon."""


class JournalVersionError(JournalError):
    """The journal was written by a newer version of amends."""


class JournalMovedError(JournalError):
    """The journal was copied to another place, or is being copied; nothing is written here any more."""


class PayloadRemovedError(JournalError):
    """The content of this entry was removed, as retention asks. Its number, time, name and digest are kept."""


class JournalUnreachableError(JournalError):
    """The server that has the journal does not answer. What was asked of it last may have been done."""


class ForkedError(JournalError):
    """The journal was opened in another process; open it anew in this one."""
