"""Tasks with dependencies of every kind; providers record their calls and clean-ups."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

from gates import opened
from lockwork import Depends, Lockwork, current_job
from lockwork.injection import INJECTED
from notes import record

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
    record("pool", number=pool.number)
    yield pool
    record("pool closed", number=pool.number)


InPool = Annotated[Pool, Depends(get_pool, scope="worker")]


class Connection:
    def __init__(self, name: str) -> None:
        self.name = name
        self.thread = threading.get_ident()


async def get_connection(pool: InPool) -> AsyncIterator[Connection]:
    record("connect", job=current_job().id, thread=here())
    try:
        yield Connection(f"connection of pool {pool.number}")
    except BaseException as error:
        record("roll back", job=current_job().id, error=type(error).__name__)
        raise
    else:
        record("commit", job=current_job().id)
    finally:
        await asyncio.sleep(0)
        record("disconnect", job=current_job().id)


def get_session() -> Iterator[Connection]:
    record("session", job=current_job().id, thread=here())
    try:
        yield Connection("session")
    except BaseException as error:  # noqa: BLE001 - a provider that swallows all
        record("session rolled back", job=current_job().id, error=type(error).__name__)
    else:
        record("session committed", job=current_job().id, thread=here())


async def get_user(connection: Annotated[Connection, Depends(get_connection)]) -> str:
    return f"user in {connection.name}"


def get_fails() -> str:
    raise LookupError("nothing to give")


def get_fails_after() -> Iterator[str]:
    yield "fine"
    record("fails after")
    raise ConnectionError("commit failed")


def get_held() -> None:
    record("held begins")
    try:
        while True:
            time.sleep(0.5)  # cannot be interrupted
    except BaseException as error:
        record("held ends", error=type(error).__name__)
        raise


def end_all(kind: type[BaseException]) -> None:
    record("exits")
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
    record("ran", thread=here())
    return [number, connection.name, user]


@lw.task(retries=0)
def reads_in_a_thread(connection: Connected, session: Session, number: int = 0) -> list[Any]:
    record("ran", thread=here())
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
    record("ran")


@lw.task(retries=0)
def needs_what_fails_in_a_thread(session: Session, other: Annotated[str, Depends(get_fails)]) -> None:
    record("ran")


@lw.task(retries=0)
async def cannot_commit(other: Annotated[str, Depends(get_fails_after)]) -> str:
    return "done"


async def get_slowly() -> str:
    await asyncio.sleep(60)
    return "late"


@lw.task(retries=0, timeout=0.2)
def provided_too_slowly(connection: Connected, other: Annotated[str, Depends(get_slowly)]) -> None:
    record("ran")


@lw.task(retries=0, timeout=0.2)
async def provided_too_slowly_in_a_thread(session: Annotated[str, Depends(lambda: time.sleep(0.4))]) -> None:
    record("ran")


@lw.task(retries=1, backoff=0, timeout=0.1)
async def held_by_a_provider(other: Annotated[None, Depends(get_held)]) -> None:
    record("ran")


@lw.task(retries=0)
async def held_for_ever(other: Annotated[None, Depends(get_held)]) -> None:
    record("ran")


async def get_needy(other: Annotated[None, Depends(get_held)]) -> None:
    record("provided")


@lw.task(retries=1, backoff=0, timeout=0.1)
def held_before_its_thread(other: Annotated[None, Depends(get_needy)]) -> None:
    record("ran")


@lw.task(retries=0)
async def needs_what_exits(other: Annotated[str, Depends(get_exits)]) -> None:
    record("ran")


@lw.task(retries=0)
async def needs_what_is_interrupted(other: Annotated[str, Depends(get_interrupted)]) -> None:
    record("ran")


@lw.task
async def held(gate: str, connection: Connected) -> str:
    record("ran")
    await opened(gate)
    return connection.name


@lw.task
def held_in_a_thread(connection: Connected, session: Session) -> None:
    record("ran")
    while True:
        time.sleep(0.005)


@lw.task(key="user:{user}", group="{connection_kind}")
async def grouped(connection: Connected, user: int, connection_kind: str = "pooled") -> list[Any]:
    return [user, connection.name]


scheduled = Lockwork()


def get_name() -> str:
    return "provided"


@scheduled.task(every="1s")
async def ticks(name: Annotated[str, Depends(get_name)]) -> None:
    record("tick", name=name)
