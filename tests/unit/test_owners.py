"""The end of owners of locks: threads and asyncio tasks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from lockwork import owners
from lockwork.owners import Owner


def gone(owner: Owner) -> bool:
    return owner.gone


def owner_in_thread(then: Callable[[], object] = lambda: None) -> Owner:
    found: list[Owner] = []

    def run() -> None:
        found.append(owners.current())
        then()

    thread = threading.Thread(target=run, name="short")
    thread.start()
    thread.join()
    return found[0]


def test_owner_is_gone_when_its_thread_has_ended() -> None:
    mine, other = owners.current(), owner_in_thread()
    assert not gone(mine)
    assert gone(other)
    assert other.described == "thread 'short'"


def test_owner_is_gone_when_its_asyncio_task_is_done() -> None:
    async def main() -> tuple[Owner, Owner]:
        async def child() -> Owner:
            return owners.current()

        mine, other = owners.current(), await asyncio.create_task(child(), name="child")
        assert not gone(mine)
        assert gone(other)
        return mine, other

    mine, other = asyncio.run(main())
    assert gone(mine)
    assert other.described == "asyncio task 'child'"


def test_owner_is_gone_when_the_loop_of_its_pending_task_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.new_event_loop()
    found: asyncio.Future[Owner] = loop.create_future()

    async def endless() -> None:
        found.set_result(owners.current())
        await asyncio.Event().wait()

    task = loop.create_task(endless())
    owner = loop.run_until_complete(found)
    assert not gone(owner)
    loop.close()
    assert not task.done()
    assert gone(owner)
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    del task
    assert gone(owner)


def test_detached_owner_lasts_until_it_is_ended() -> None:
    detached: list[Owner | None] = []
    owner = owner_in_thread(lambda: detached.append(owners.detach_thread()))
    assert detached == [owner]
    assert not gone(owner)
    owner.end("job 1")
    assert gone(owner)
    assert owner.described == "job 1"


def test_thread_without_an_owner_detaches_none() -> None:
    detached: list[Owner | None] = []
    thread = threading.Thread(target=lambda: detached.append(owners.detach_thread()))
    thread.start()
    thread.join()
    assert detached == [None]


async def test_asyncio_task_acts_as_another_owner_only_within_the_block() -> None:
    mine, other = owners.current(), Owner("worker")
    with owners.acting_as(other):
        assert owners.current() is other
        assert await asyncio.to_thread(owners.current) is not other
    assert owners.current() is mine
    assert not gone(other)


def test_thread_acts_as_another_owner_only_within_the_block() -> None:
    mine, other = owners.current(), Owner("worker")
    with owners.acting_as(other):
        assert owners.current() is other
    assert owners.current() is mine
    assert not gone(mine)
