"""The timeline's words on a saga that waits or is paused, and on what holds for all of them. Pure."""

from __future__ import annotations

from typing import assert_never

from amends.core import events as e
from amends.text import LONGEST_RESULT, said, short, span, spelled


def told_of_waiting(event: e.WaitEvent, at: int) -> str:
    match event:
        case e.WaitStarted(name="", until=until):
            return f"sleeps for {span(until - at)}"
        case e.WaitStarted(name=name, until=until):
            return f"waits for {short(name)}, at most {span(until - at)}"
        case e.WaitEnded(signal=None):
            return "its time is up"
        case e.WaitEnded(signal=number):
            return f"goes on with signal {number}"
        case e.SignalReceived(number=number, name=name, payload=payload, by=by):
            sent = "" if payload is None else f": {spelled(payload, LONGEST_RESULT)}"
            return f"signal {number} {short(name)} from {short(by)}{sent}"
        case _:
            assert_never(event)


def told_of_control(event: e.SagaPaused | e.ControlEvent) -> str:
    match event:
        case e.SagaPaused(by=by, why=why, pause=number):
            wide = f" (pause {number})" if number else ""
            return f"paused by {short(by)}{wide}: {said(why)}"
        case e.DispatchPaused(by=by, why=why, rollbacks=rollbacks):
            also = ", rollbacks too" if rollbacks else ""
            return f"dispatch of {scope_words(event)} paused by {short(by)}{also}: {said(why)}"
        case e.DispatchUnpaused(pause=number, by=by, why=why):
            return f"pause {number} ended by {short(by)}{_because(why)}"
        case e.HoldPlaced(saga=saga, by=by, why=why):
            return f"hold placed on {short(saga)} by {short(by)}: {said(why)}"
        case e.HoldLifted(saga=saga, by=by, why=why):
            return f"hold on {short(saga)} lifted by {short(by)}{_because(why)}"
        case e.DrillMissed(saga=saga, target=target, every_s=every_s):
            every = span(round(every_s * 1000))
            return f"drill of {short(saga)} ({short(target)}) missed: there has to be one every {every}"
        case e.TokenMade(name=name, scopes=scopes, by=by):
            return f"token {event.digest[:12]} made for {short(name)} by {short(by)}: {', '.join(map(short, scopes))}"
        case e.TokenRevoked(digest=token, by=by, why=why):
            return f"token {short(token[:12])} revoked by {short(by)}{_because(why)}"
        case _:
            assert_never(event)


def told_of_removal(event: e.ContentRemoved) -> str:
    which = "the entry before it" if event.entries == 1 else f"entries 1 to {event.entries}"
    how = "was found gone, and is vouched for" if event.was_gone else "was removed"
    own = " (own decision)" if event.own else ""
    return f"what {which} held {how} by {short(event.by)}{own}: {said(event.why)}"


def scope_words(paused: e.DispatchPaused) -> str:
    """The scope of a pause, for a person."""
    named = (("topic", paused.topic), ("definition", paused.definition), ("tenant", paused.tenant))
    return " and ".join(f"{what} {short(name)}" for what, name in named if name) or "everything"


def _because(why: str) -> str:
    return f": {said(why)}" if why else ""
