"""The options of locks: public signatures name them, and the handles take them as one TypedDict."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from lockwork import Lockwork
from lockwork.compat.plain import PlainLock
from lockwork.compat.timestamp import TimestampLock
from lockwork.locks.options import ExclusiveSettings, LeaseSettings, LockSettings
from lockwork.locks.quorum import Quorum
from lockwork.queues.queue import Queue

_LEASE = set(LeaseSettings.__annotations__)
_LOCK = set(LockSettings.__annotations__)
_EXCLUSIVE = set(ExclusiveSettings.__annotations__)


def test_settings_extend_each_other() -> None:
    assert _LEASE < _LOCK < _EXCLUSIVE
    assert not (LeaseSettings.__required_keys__ | LockSettings.__required_keys__ | ExclusiveSettings.__required_keys__)


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (Lockwork.lock, _EXCLUSIVE | {"sticky"}),
        (Queue.lock, _EXCLUSIVE),
        (Lockwork.semaphore, _LOCK | {"units"}),
        (Lockwork.rwlock, _LOCK),
        (Lockwork.multilock, _LOCK),
        (Quorum.lock, _LOCK),
        (PlainLock, _LEASE | {"missing_expiry"}),
        (TimestampLock, _LEASE | {"unit"}),
    ],
)
def test_public_signature_names_each_option(function: Any, options: set[str]) -> None:
    parameters = inspect.signature(function).parameters.values()
    assert {each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY} == options
