"""Acquire several locks, all or none; a waiter acquires them in the order of their keys.

On one server, or in one slot of a Cluster, one script call requests all locks (a group). Different groups need separate
calls: a request acquires one whole group after another, and all callers use the same order.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from lockwork import words
from lockwork.errors import LockTimeout, LockworkError
from lockwork.protocol.effects import Argument, Call, Clock, Protocol, script_call
from lockwork.protocol.locks.grants import CLAIM_MS, Granted, Request, foreign, local_deadline
from lockwork.protocol.messages import Hints, listen
from lockwork.protocol.retry import patience, undo
from lockwork.protocol.scripts import codes

Groups = Sequence[Sequence[str]]
"""Groups of keys; one script call takes the keys of a group. All callers acquire the groups in this order."""


class _Round(Struct):
    """Result of one round of requests: grants by key, or the time of the next round."""

    granted: dict[str, Granted]
    missing: int | None = None
    """Index of the first group that was not completely granted."""
    until: float = 0.0


def acquire(asked: Request, groups: Groups, wait: float | None) -> Protocol[dict[str, Granted]]:
    """Acquire grants for all keys within `wait` seconds (None: without a limit); `asked.key` is not used.

    Raises LockTimeout. When interrupted, it withdraws all requests, and releases its grants.
    """
    began = yield Clock()
    give_up = None if wait is None else began + wait
    waited, reached = False, 0
    hints = Hints()
    all_keys = tuple(key for group in groups for key in group)
    entered = len(groups)
    """Number of groups that may have stored the request."""
    try:
        while True:
            attempt = yield from _round(asked, groups, wait, give_up)
            if attempt.missing is None:
                return {key: replace(grant, waited=waited) for key, grant in attempt.granted.items()}
            if wait == 0:
                entered = attempt.missing  # that group's script stored nothing
                raise LockTimeout(f"{asked.shown} is not free as a whole")
            waited = True
            for group in groups[attempt.missing + 1 : reached + 1]:
                # an earlier group was lost: keeping later groups while waiting for it could deadlock
                yield _abandon(asked, group)
            reached = attempt.missing
            until = attempt.until if give_up is None else min(attempt.until, give_up)
            message = yield from listen(hints, asked.request, until, key=groups[reached][0], held=all_keys)
            if message is None and give_up is not None and (yield Clock()) >= give_up:
                yield from abandon(asked, groups)  # inside the `try`, so an interrupted call is repeated below
                entered = 0
                raise LockTimeout(f"{asked.shown} was not granted within {words.exact(wait)}")
    except GeneratorExit:
        raise
    except BaseException as error:
        yield from abandon(asked, groups[:entered], error)
        raise


def abandon(asked: Request, groups: Groups, why: BaseException | None = None) -> Protocol[None]:
    """Withdraw a request, whether it was granted or not; `why`: see `undo`."""
    for group in groups:
        yield from undo(_abandon(asked, group), why)


def _round(asked: Request, groups: Groups, wait: float | None, give_up: float | None) -> Protocol[_Round]:
    """Request one group after another, including groups that are already granted, to refresh their leases."""
    attempt, granted = _Round({}), codes("locks/multi_acquire").granted
    for at, group in enumerate(groups):
        args = (asked.owner, asked.request, asked.lease_ms, CLAIM_MS, 0 if wait == 0 else 1, asked.channel)
        while True:
            sent = yield Clock()
            reply = yield script_call("locks/multi_acquire", tuple(group), args, patience(give_up, sent))
            if reply[0] == granted or wait != 0 or not reply[1]:
                break  # else the call removed the maximum number of dead waiters, and more are ahead
        if reply[0] != granted:
            attempt.missing = at
            recheck_ms = reply[1] if at == 0 else min(reply[1], max(1, asked.lease_ms // 3))
            attempt.until = sent + recheck_ms / 1000
            break
        for place, key in enumerate(group):
            fence, deadline = reply[2 + 2 * place : 4 + 2 * place]
            attempt.granted[key] = Granted(fence, local_deadline(sent, reply[1], deadline))
    return attempt


def _abandon(asked: Request, group: Sequence[str]) -> Call:
    return script_call("locks/multi_abandon", tuple(group), (asked.owner, asked.request))


def release(
    owner: str, fences: dict[str, int], groups: Groups, patience: float | None = None
) -> Protocol[dict[str, bool]]:
    """End the grants with these fences, and transfer the locks to waiters. Return per key whether the grant was alive.

    If one group is unreachable, the other groups are still released.
    """
    results: dict[str, bool] = {}
    failed: BaseException | None = None
    for group in groups:
        keys = [key for key in group if key in fences]
        if not keys:
            continue
        args: list[Argument] = [0, owner, *(fences[key] for key in keys)]
        call = script_call("locks/multi_release", keys, args, patience if failed is None else 1)
        try:
            reply = yield call
            refused = [answer for answer in reply if isinstance(answer, bytes)]
            if refused:
                raise foreign(keys[reply.index(refused[0])], refused[0])
        except GeneratorExit:
            raise
        except LockworkError as error:
            failed = failed or error
        except BaseException as error:  # noqa: BLE001 - raised below, after the other groups are released
            failed = error
            with contextlib.suppress(LockworkError):
                yield replace(call.again(), patience=1)
        else:
            results.update(zip(keys, map(bool, reply), strict=True))
    if failed is not None:
        raise failed
    return results
