"""A forged message on a wake channel only makes the waiter ask the server: it grants nothing and breaks nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import closing
from typing import Any

import pytest
import redis

from cancelling import auntil
from commandstats import script_calls
from lockwork import Lockwork

_ODD = ("x", "1", "a b", "1 2 3", "look", f"1 {10**30}", "\x00", " ", "٣ ٣", "9" * 5000, "y" * 200_000)

Case = tuple[Callable[[Lockwork], Coroutine[Any, Any, Any]], Callable[[Lockwork], object], str, bytes]
"""The wait, a call that blocks it, the key with its ticket, and the first letter of the ticket's field."""

LINES: dict[str, Case] = {
    "lock": (lambda app: app.lock("x").aacquire(), lambda app: app.lock("x").acquire(), "lw:{lock:x}", b"i"),
    "read-write lock": (
        lambda app: app.rwlock("x").write().aacquire(),
        lambda app: app.rwlock("x").read().acquire(),
        "lw:{rw:x}",
        b"i",
    ),
    "semaphore": (
        lambda app: app.semaphore("x", 1).aacquire(),
        lambda app: app.semaphore("x", 1).acquire(),
        "lw:{sem:x}",
        b"i",
    ),
    "multilock": (
        lambda app: app.multilock("x", "y").aacquire(),
        lambda app: app.lock("x").acquire(),
        "lw:{lock:x}",
        b"i",
    ),
    "barrier": (lambda app: app.barrier("x", 2).await_(), lambda app: None, "lw:{barrier:x}", b"a"),
    "latch": (lambda app: app.latch("x", 1).await_(), lambda app: None, "lw:{latch:x}", b"w"),
    "delay queue": (lambda app: app.delay_queue("x").apop(wait=None), lambda app: None, "lw:{dq:x}:state", b"w"),
    "stock": (
        lambda app: app.stock("x", 1).areserve("eve", wait=None),
        lambda app: app.stock("x", 1).reserve("bob", key="his"),
        "lw:{q:default}:stock:x",
        b"i",
    ),
}
ENDS: dict[str, Callable[[Lockwork], object]] = {
    "barrier": lambda app: app.barrier("x", 2).wait(10),
    "latch": lambda app: app.latch("x", 1).count_down(),
    "delay queue": lambda app: app.delay_queue("x").add("one"),
    "stock": lambda app: app.stock("x", 1).restock(1),
}


@pytest.fixture(params=list(LINES))
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


async def _waiting(kind: str, alw: Lockwork, lw: Lockwork, admin: redis.Redis) -> tuple[asyncio.Task[Any], str]:
    """Start a waiter; return its asyncio task and its ticket."""
    waits, begins, key, letter = LINES[kind]
    await asyncio.to_thread(begins, lw)
    task = asyncio.create_task(waits(alw))

    async def ticket() -> str | None:
        fields: dict[bytes, bytes] = admin.hgetall(key)  # type: ignore[assignment]
        tickets = [name[1:].decode() for name in fields if name[:1] == letter]
        return tickets[0] if tickets else None

    await auntil(lambda: _found(ticket), f"{kind}: a caller waits")
    waiting = await ticket()
    assert waiting is not None
    await auntil(lambda: _heard(admin, alw), "its process is subscribed")
    return task, key if kind == "latch" else waiting


async def _found(ticket: Callable[[], Coroutine[Any, Any, str | None]]) -> bool:
    return await ticket() is not None


async def _heard(admin: redis.Redis, app: Lockwork) -> bool:
    return dict(admin.pubsub_numsub(app.runtime.channel))[app.runtime.channel.encode()] == 1


async def _ended(kind: str, lw: Lockwork, task: asyncio.Task[Any]) -> None:
    end = ENDS.get(kind, Lockwork.release_all)
    await asyncio.gather(asyncio.to_thread(end, lw), asyncio.wait_for(task, 20))


async def test_forged_or_malformed_message_is_only_a_hint(
    kind: str, alw: Lockwork, lw: Lockwork, admin: redis.Redis
) -> None:
    task, ticket = await _waiting(kind, alw, lw, admin)
    far = int(time.time() + 3600) * 1_000_000
    forged = (f"{far} {far}", f"{'0' * 40} {far} {far}", "0", str(far), f"{'0' * 40} 0", f"{'0' * 40} {far}")
    for words in (*forged, *_ODD):
        before = script_calls(admin)
        admin.publish(alw.runtime.channel, f"{ticket} {words}".encode(errors="surrogateescape"))

        async def asked(before: int = before) -> bool:
            return script_calls(admin) > before

        await auntil(asked, "it asks the server")
        assert not task.done(), f"{words!r} from a stranger"
    await _ended(kind, lw, task)


@pytest.mark.parametrize("kind", ["lock", "semaphore", "barrier"], indirect=True)
async def test_received_grant_is_entered_once(
    kind: str, alw: Lockwork, lw: Lockwork, admin: redis.Redis, url: str
) -> None:
    """A client that received one hand-over cannot forge another."""
    with redis.Redis.from_url(url) as stranger, closing(stranger.pubsub(ignore_subscribe_messages=True)) as ear:
        ear.psubscribe("lw:wake:*")
        ear.get_message(timeout=1)
        task, ticket = await _waiting(kind, alw, lw, admin)
        await _ended(kind, lw, task)
        handed: list[str] = []

        async def heard() -> bool:
            message = ear.get_message(timeout=0.05)
            text = message["data"].decode() if message else ""
            if text.startswith(f"{ticket} ") and not text.endswith("look"):
                handed.append(text)
            return bool(handed)

        await auntil(heard, "a stranger hears the hand-over")
        await alw.arelease_all()
        task, later = await _waiting(kind, alw, lw, admin)
        words = handed[0].removeprefix(ticket)
        far = " ".join(str(int(word) + 3_600_000_000) if word.isdecimal() else word for word in words.split(" "))
        before = script_calls(admin)
        for text in (handed[0], f"{later}{words}", f"{later}{far}"):
            admin.publish(alw.runtime.channel, text)

        async def asked() -> bool:
            return script_calls(admin) > before

        await auntil(asked, "it asks the server")
        assert not task.done()
        await _ended(kind, lw, task)


async def test_flood_of_hints_costs_bounded_calls(kind: str, alw: Lockwork, lw: Lockwork, admin: redis.Redis) -> None:
    task, ticket = await _waiting(kind, alw, lw, admin)
    before, began = script_calls(admin), time.monotonic()
    for number in range(100):
        with admin.pipeline(transaction=False) as pipe:
            for at in range(100):
                pipe.publish(alw.runtime.channel, f"{ticket} {number}.{at}")
            await asyncio.to_thread(pipe.execute)
    asked, took = script_calls(admin) - before, time.monotonic() - began
    assert asked <= 110 + 60 * took, f"{asked} calls for 10,000 messages in {took:.1f} s"
    assert not task.done()
    await _ended(kind, lw, task)


def test_flood_of_messages_about_a_held_lock_does_not_lose_it(lw: Lockwork, admin: redis.Redis) -> None:
    channel = lw.runtime.channel
    with lw.lock("x", sticky=True) as grant, lw.semaphore("y", 1):
        lw.runtime.engine.listen()
        before, began = script_calls(admin), time.monotonic()
        for _ in range(50):
            with admin.pipeline(transaction=False) as pipe:
                for what in ("! look lw:{lock:x}", "! look lw:{sem:y}", "! asked lw:{lock:x}", "!", "! what", "! look"):
                    for _ in range(30):
                        pipe.publish(channel, what)
                pipe.execute()
        asked, took = script_calls(admin) - before, time.monotonic() - began
        assert asked <= 250 + 120 * took, f"{asked} calls for 9,000 messages in {took:.1f} s"
        grant.check()
