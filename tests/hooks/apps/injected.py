"""Tasks with dependencies of every kind; providers record their calls and clean-ups."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated, Any

from observed import note  # type: ignore[import-not-found]  # beside it, when a worker runs it

from lockwork import Depends, Lockwork, current_job
from lockwork.injection import INJECTED

lw = Lockwork()
numbers = itertools.count(1)


def here() -> str:
    return threading.current_thread().name


class Pool:
    """Lives as long as the worker."""

    def __init__(self) -> None:
        self.number = next(numbers)


async def get_pool() -> AsyncIterator[Pool]:
    pool = Pool()
    note("pool", number=pool.number)
    yield pool
    note("pool closed", number=pool.number)


InPool = Annotated[Pool, Depends(get_pool, scope="worker")]


class Connection:
    def __init__(self, name: str) -> None:
        self.name = name
        self.thread = threading.get_ident()


async def get_connection(pool: InPool) -> AsyncIterator[Connection]:
    note("connect", job=current_job().id, thread=here())
    try:
        yield Connection(f"connection of pool {pool.number}")
    except BaseException as error:
        note("roll back", job=current_job().id, error=type(error).__name__)
        raise
    else:
        note("commit", job=current_job().id)
    finally:
        await asyncio.sleep(0)
        note("disconnect", job=current_job().id)


def get_session() -> Iterator[Connection]:
    note("session", job=current_job().id, thread=here())
    try:
        yield Connection("session")
    except BaseException as error:  # noqa: BLE001 - a provider that swallows all
        note("session rolled back", job=current_job().id, error=type(error).__name__)
    else:
        note("session committed", job=current_job().id, thread=here())


async def get_user(connection: Annotated[Connection, Depends(get_connection)]) -> str:
    return f"user in {connection.name}"


def get_fails() -> str:
    raise LookupError("nothing to give")


def get_fails_after() -> Iterator[str]:
    yield "fine"
    note("fails after")
    raise ConnectionError("commit failed")


def get_held() -> None:
    note("held begins")
    try:
        while True:
            time.sleep(0.5)  # cannot be interrupted
    except BaseException as error:
        note("held ends", error=type(error).__name__)
        raise


def end_all(kind: type[BaseException]) -> None:
    note("exits")
    raise kind("no configuration")


def get_exits() -> Iterator[str]:
    end_all(SystemExit)
    yield "never"


def get_interrupted() -> Iterator[str]:
    end_all(KeyboardInterrupt)
    yield "never"


Connected = Annotated[Connection, Depends(get_connection)]
Session = Annotated[Connection, Depends(get_session)]
User = Annotated[str, Depends(get_user)]


@lw.task(retries=0)
async def reads(number: int, connection: Connected = INJECTED, *, user: User = INJECTED) -> list[Any]:
    note("ran", thread=here())
    return [number, connection.name, user]


@lw.task(retries=0)
def reads_in_a_thread(connection: Connected, session: Session, number: int = 0) -> list[Any]:
    note("ran", thread=here())
    return [number, connection.name, session.name, session.thread == threading.get_ident()]


@lw.task(retries=0)
async def reads_a_session(session: Session) -> str:
    return session.name


@lw.task(retries=1, backoff=0)
async def fails(connection: Connected, session: Session) -> None:
    raise ValueError("the task's own")


@lw.task(retries=0)
def fails_in_a_thread(connection: Connected, session: Session) -> None:
    raise ValueError("the task's own")


@lw.task(retries=0, timeout=1)
async def too_slow(connection: Connected, session: Session) -> None:
    await asyncio.sleep(60)


@lw.task(retries=0, timeout=1)
def too_slow_in_a_thread(connection: Connected, session: Session) -> None:
    while True:
        time.sleep(0.005)


@lw.task(retries=0)
async def needs_what_fails(connection: Connected, other: Annotated[str, Depends(get_fails)]) -> None:
    note("ran")


@lw.task(retries=0)
def needs_what_fails_in_a_thread(session: Session, other: Annotated[str, Depends(get_fails)]) -> None:
    note("ran")


@lw.task(retries=0)
async def cannot_commit(other: Annotated[str, Depends(get_fails_after)]) -> str:
    return "done"


async def get_slowly() -> str:
    await asyncio.sleep(60)
    return "late"


@lw.task(retries=0, timeout=0.2)
def provided_too_slowly(connection: Connected, other: Annotated[str, Depends(get_slowly)]) -> None:
    note("ran")


@lw.task(retries=0, timeout=0.2)
async def provided_too_slowly_in_a_thread(session: Annotated[str, Depends(lambda: time.sleep(0.4))]) -> None:
    note("ran")


@lw.task(retries=1, backoff=0, timeout=0.1)
async def held_by_a_provider(other: Annotated[None, Depends(get_held)]) -> None:
    note("ran")


@lw.task(retries=0)
async def held_for_ever(other: Annotated[None, Depends(get_held)]) -> None:
    note("ran")


async def get_needy(other: Annotated[None, Depends(get_held)]) -> None:
    note("provided")


@lw.task(retries=1, backoff=0, timeout=0.1)
def held_before_its_thread(other: Annotated[None, Depends(get_needy)]) -> None:
    note("ran")


@lw.task(retries=0)
async def needs_what_exits(other: Annotated[str, Depends(get_exits)]) -> None:
    note("ran")


@lw.task(retries=0)
async def needs_what_is_interrupted(other: Annotated[str, Depends(get_interrupted)]) -> None:
    note("ran")


@lw.task
async def held(gate: str, connection: Connected) -> str:
    note("ran")
    while not Path(gate).exists():
        await asyncio.sleep(0.01)
    return connection.name


@lw.task
def held_in_a_thread(connection: Connected, session: Session) -> None:
    note("ran")
    while True:
        time.sleep(0.005)


@lw.task(key="user:{user}", group="{connection_kind}")
async def grouped(connection: Connected, user: int, connection_kind: str = "pooled") -> list[Any]:
    return [user, connection.name]
