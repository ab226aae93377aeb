"""One key shared with Laravel's cache lock, in PHP, both ways."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from compat.laravel import Laravel
from lockwork import LockLost, Lockwork
from lockwork.compat.plain import PlainLock

NAME = "report"


def test_php_holds_and_python_waits(lw: Lockwork, laravel: Laravel) -> None:
    ours = PlainLock(lw, laravel.key(NAME))
    assert laravel.ask("get", NAME, 30)
    assert ours.try_acquire() is None
    token = ours.inspect().token
    assert token is not None
    assert token.decode() == laravel.ask("owner", NAME)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(lambda: ours.acquire(wait=30))
        assert laravel.ask("release", NAME)
        grant = waiting.result(30)
        assert not laravel.ask("get", NAME, 30)
        grant.release()
    assert laravel.ask("get", NAME, 30)
    assert laravel.ask("release", NAME)


def test_python_holds_and_php_waits(lw: Lockwork, laravel: Laravel) -> None:
    with PlainLock(lw, laravel.key(NAME)) as grant:
        assert not laravel.ask("get", NAME, 30)
        assert not laravel.ask("release", NAME)  # its own token is not ours
        assert not grant.lost
        laravel.say("block", NAME, 30)
        assert laravel.hear() == "waiting"
    assert laravel.hear() is True
    assert PlainLock(lw, laravel.key(NAME)).try_acquire() is None
    assert laravel.ask("release", NAME)


def test_php_gives_up_waiting(lw: Lockwork, laravel: Laravel) -> None:
    with PlainLock(lw, laravel.key(NAME)) as grant:
        laravel.say("block", NAME, 0)
        assert laravel.hear() == "waiting"
        assert laravel.hear() == "timeout"
        assert not grant.lost


def test_lock_expired_in_php_is_granted_to_us_and_php_cannot_end_it(lw: Lockwork, laravel: Laravel) -> None:
    assert laravel.ask("get", NAME, 1)
    with PlainLock(lw, laravel.key(NAME), wait=30) as grant:
        assert not laravel.ask("release", NAME)
        assert not grant.lost


def test_lock_expired_here_is_granted_to_php_and_we_cannot_end_it(lw: Lockwork, laravel: Laravel) -> None:
    grant = PlainLock(lw, laravel.key(NAME), lease=0.3).acquire()
    laravel.say("block", NAME, 30)
    assert laravel.hear() == "waiting"
    assert laravel.hear() is True
    with pytest.raises(LockLost):
        grant.release()
    assert laravel.ask("release", NAME)


def test_php_goes_on_with_a_lock_that_python_took(lw: Lockwork, laravel: Laravel, admin: redis.Redis) -> None:
    ours = PlainLock(lw, laravel.key(NAME), lease=30)
    grant = ours.acquire()
    laravel.ask("restore", NAME, "-", ours.token())
    assert laravel.ask("release", NAME)
    assert not admin.exists(laravel.key(NAME))
    with pytest.raises(LockLost):
        grant.release()


def test_php_takes_it_by_force(lw: Lockwork, laravel: Laravel) -> None:
    grant = PlainLock(lw, laravel.key(NAME), lease=30).acquire()
    laravel.ask("force", NAME)
    assert laravel.ask("get", NAME, 30)
    with pytest.raises(LockLost):
        grant.release()
    assert laravel.ask("release", NAME)
