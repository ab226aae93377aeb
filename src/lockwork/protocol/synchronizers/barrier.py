"""The barrier: each party waits until all parties have arrived, then all pass. Then the next generation begins."""

from __future__ import annotations

import contextlib

from msgspec import Struct

from lockwork import words
from lockwork.errors import ConfigError, LockworkError, WaitTimeout
from lockwork.protocol.effects import Argument, Call, Clock, Protocol, script_call
from lockwork.protocol.keys import BarrierKeys
from lockwork.protocol.messages import Hints, listen, numbers, secret
from lockwork.protocol.retry import Rechecks, patience, undo
from lockwork.protocol.scripts import codes


class Arrival(Struct, frozen=True):
    """One party's arrival, with the values that the server needs to count it once and to wake it."""

    keys: BarrierKeys
    name: str
    parties: int
    request: str
    channel: str


class BarrierStatus(Struct, frozen=True):
    """`arrived` of `parties` wait; `generation` counts how often the barrier has opened since its keys were deleted."""

    arrived: int
    parties: int
    generation: int


def wait(arrival: Arrival, timeout: float | None) -> Protocol[int]:
    """Arrive, and wait at most `timeout` seconds for the others; return the index within the generation.

    Raises WaitTimeout. A timeout or an interruption withdraws the arrival, unless the barrier opened meanwhile.
    """
    began = yield Clock()
    give_up = None if timeout is None else began + timeout
    results = codes("synchronizers/barrier_arrive")
    rechecks, hints, sealed_with = Rechecks(0.5), Hints(), secret(arrival.keys.barrier)
    try:
        while True:
            sent = yield Clock()
            args: list[Argument] = [arrival.parties, arrival.request, arrival.channel, sealed_with]
            call = script_call("synchronizers/barrier_arrive", arrival.keys, args, patience(give_up, sent))
            code, answer, _, remaining = yield call
            while remaining and code == results.waiting:
                # this call would open the barrier, but parties of the previous generation must be notified first
                code, answer, _, remaining = yield call
            if code == results.passed:
                yield from _notify(call, remaining)
                return int(answer)
            if code == results.other_parties:
                raise ConfigError(
                    f"barrier {arrival.name!r} is for {answer} parties, and some of them wait; "
                    f"this handle says {arrival.parties}"
                )
            now = yield Clock()
            if give_up is not None and now >= give_up:
                return (yield from _give_up(arrival, timeout, answer))
            # the message has the index, and only this arrival receives it
            message = yield from listen(
                hints,
                arrival.request,
                rechecks.next(now, give_up),
                lambda text: numbers(sealed_with, arrival.request, text, 1),
                arrival.keys.barrier,
            )
            if isinstance(message, list):
                return message[0]
            if message is None and give_up is not None and (yield Clock()) >= give_up:
                return (yield from _give_up(arrival, timeout, answer))
    except (GeneratorExit, ConfigError, WaitTimeout):
        raise
    except BaseException as error:
        yield from undo(script_call("synchronizers/barrier_leave", arrival.keys, [arrival.request]), error)
        raise


def _notify(call: Call, left: int) -> Protocol[None]:
    """Notify the remaining parties, some hundreds per call; if the server is unreachable, the parties check again."""
    with contextlib.suppress(LockworkError):
        while left:
            *_, left = yield call


def status(keys: BarrierKeys, parties: int) -> Protocol[BarrierStatus]:
    """Count the parties that have arrived and wait."""
    arrived, generation = yield script_call("synchronizers/barrier_state", keys, [])
    return BarrierStatus(arrived, parties, generation)


def _give_up(arrival: Arrival, timeout: float | None, arrived: int) -> Protocol[int]:
    code, index, _ = yield script_call("synchronizers/barrier_leave", arrival.keys, [arrival.request])
    if code == 1:
        return int(index)
    raise WaitTimeout(
        f"barrier {arrival.name!r}: within {words.exact(timeout)} not all of the {arrival.parties} parties arrived "
        f"({arrived} at the last count); this party no longer counts"
    )
