"""At most once per period: the runner, the callers that wait for its result, and the stored result."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from lockwork import words
from lockwork.errors import WaitTimeout
from lockwork.protocol.effects import Argument, Clock, Protocol, script_call
from lockwork.protocol.locks.grants import Granted, LockScripts, local_deadline
from lockwork.protocol.messages import Hints, listen
from lockwork.protocol.retry import Rechecks, insist, patience, undo
from lockwork.protocol.scripts import codes

SCRIPTS = LockScripts(
    "synchronizers/once_begin", "synchronizers/once_abandon", "synchronizers/once_end", "synchronizers/once_renew"
)

State = Literal["idle", "running", "done", "failed", "lost"]
_STATES: dict[bytes, State] = {b"": "idle", b"r": "running", b"d": "done", b"f": "failed", b"l": "lost"}


class OnceRequest(Struct, frozen=True):
    """One call of a function that runs once per period, with all values that the server needs."""

    key: str
    name: str
    owner: str
    request: str
    channel: str
    lease_ms: int
    every_ms: int
    again_if_lost: bool


class EndedRun(Struct, frozen=True):
    """Outcome of this period's run."""

    state: State
    value: bytes


class OnceState(Struct, frozen=True):
    """State of this period's run, its owner, and seconds until the period ends."""

    state: State
    owner: str
    request: str
    fence: int
    ends_in: float


def begin(asked: OnceRequest, wait: float | None) -> Protocol[Granted | EndedRun]:
    """Start this period's run, or wait at most `wait` seconds (None: without a limit) for its outcome.

    Raises WaitTimeout. When interrupted, it withdraws its request, so another caller can run.
    """
    began = yield Clock()
    give_up = None if wait is None else began + wait
    # one message wakes all callers of a process: a caller that has not parked yet must check again soon
    rechecks = Rechecks(0.1)
    fence, hints = 0, None
    try:
        while True:
            sent = yield Clock()
            parks = give_up is None or sent < give_up
            args: list[Argument] = [
                asked.owner, asked.request, asked.lease_ms, asked.every_ms,
                asked.channel if parks else "", int(asked.again_if_lost), fence,
            ]  # fmt: skip
            reply = yield script_call(
                "synchronizers/once_begin", asked.key, args, patience(give_up, sent) if wait else None
            )
            if reply[0] == codes(SCRIPTS.acquire).run:
                return Granted(reply[1], local_deadline(sent, reply[3], reply[2]))
            if reply[0] == codes(SCRIPTS.acquire).ended:
                return EndedRun(_STATES[reply[2]], reply[3])
            fence = reply[1]
            now = yield Clock()
            if give_up is not None and now >= give_up:
                within = "" if wait == 0 else f" and did not end within {words.exact(wait)}"
                raise WaitTimeout(f"once {asked.name!r} runs elsewhere{within}; this caller stopped waiting")
            hints = hints or Hints()
            until = min(now + reply[2] / 1_000_000, rechecks.next(now, give_up))
            yield from listen(hints, asked.key, until, key=asked.key)
    except (GeneratorExit, WaitTimeout):
        raise
    except BaseException as error:
        # if the server is unreachable, a run that it just granted counts as lost when its lease ends
        yield from undo(script_call("synchronizers/once_abandon", asked.key, [asked.request]), error)
        raise


def end(key: str, owner: str, fence: int, state: Literal["d", "f", "l"], value: bytes) -> Protocol[bool]:
    """Store the outcome of a run; return False when that run no longer counts."""
    return bool((yield from insist(script_call("synchronizers/once_end", key, [owner, fence, state, value]))))


def state(key: str) -> Protocol[OnceState]:
    """Read the state of this period's run."""
    state_code, owner, request, fence, remaining_us = yield script_call("synchronizers/once_state", key, [])
    return OnceState(_STATES[state_code], owner.decode(), request.decode(), fence, remaining_us / 1_000_000)


def reset(key: str, request: str) -> Protocol[None]:
    """Delete the period's run and its result, once per `request`."""
    yield script_call("synchronizers/once_reset", key, [request])
