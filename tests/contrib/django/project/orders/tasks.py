"""Tasks that use the ORM: in threads, on the event loop, and in runner processes."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connection
from django.utils import timezone, translation

from lockwork import Depends
from lockwork.contrib.django import lw
from lockwork.hooks import Succeeded
from lockwork.types import INJECTED

from .models import Order

_WITHOUT_DATABASE = ("open_files", "speak", "aspeak")
BARRIER = threading.Barrier(max(2, int(os.environ.get("PROJECT_JOBS", "2"))), timeout=60)


@lw.task
def ship(order: int) -> str:
    """Change a row."""
    Order.objects.filter(pk=order).update(state="shipped")
    return f"shipped {order}"


@lw.task
async def aship(order: int) -> str:
    """Change a row from the event loop."""
    await Order.objects.filter(pk=order).aupdate(state="shipped")
    return f"shipped {order}"


@lw.task(executor="process")
def pack(order: int) -> str:
    """Change a row in a runner process."""
    Order.objects.filter(pk=order).update(state="packed")
    return f"packed {order}"


@lw.task
def together(order: int) -> None:
    """Use the database in as many threads as there are jobs."""
    Order.objects.filter(pk=order).update(state="together")
    BARRIER.wait()


@lw.task
async def atogether(order: int) -> None:
    """Use the database in a thread of this job alone."""
    await Order.objects.filter(pk=order).aupdate(state="together")
    await sync_to_async(BARRIER.wait)()


@lw.task(timeout=0.2, retries=0)
async def atoo_long() -> None:
    """Be cancelled while the thread of this job still works."""
    await Order.objects.acount()
    await sync_to_async(time.sleep)(0.5)


@lw.task
def keep_connections(order: int, keep: bool) -> None:
    """Connect each thread; with `keep`, its connection outlives the job, as with CONN_MAX_AGE."""
    connection.close()
    connection.settings_dict["CONN_MAX_AGE"] = None if keep else 0
    Order.objects.get(pk=order)
    BARRIER.wait()


@lw.task(retries=0)
def break_connection(order: int) -> None:
    """Fail as after a restart of the database, in each thread once."""
    connection.ensure_connection()
    assert connection.connection is not None
    connection.connection.close()
    BARRIER.wait()
    Order.objects.get(pk=order)


@lw.task
def open_files() -> int:
    """Return how many connections to the database this process has."""
    time.sleep(0.05)  # the jobs before this one have ended for the server, and close their connections
    links = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return links.count(settings.DATABASES["default"]["NAME"])


@lw.task
def speak() -> list[str]:
    """Return the language and the time zone, and leave others."""
    found = [translation.get_language(), timezone.get_current_timezone_name()]
    translation.activate("de")
    timezone.activate("Asia/Tokyo")
    return found


@lw.task
async def aspeak() -> list[str]:
    """Do the same on the event loop."""
    return speak.function()


def used_database() -> Iterator[int]:
    """Provide a number of the database, and use it again at the end."""
    yield _count()
    _count()


@lw.task
def provided(*, shared: Annotated[int, Depends(used_database, scope="worker")] = INJECTED) -> int:
    """Use a provider that runs in another thread."""
    return shared


@lw.task
async def aprovided(*, own: Annotated[int, Depends(used_database)] = INJECTED) -> int:
    """Use a `def` provider of an `async def` job."""
    return own


@lw.hooks.success
def count_orders(event: Succeeded) -> None:
    """Use the database in the thread of a hook."""
    if event.task not in _WITHOUT_DATABASE:
        Order.objects.count()


@lw.hooks.success
async def acount_orders(event: Succeeded) -> None:
    """Use the database in the hook of an event loop."""
    if event.task not in _WITHOUT_DATABASE:
        await Order.objects.acount()


@lw.lifespan
def counted() -> Iterator[None]:
    """Use the database in the thread of a lifespan."""
    _count()
    yield
    _count()


def _count() -> int:
    return 0 if "dummy" in settings.DATABASES["default"]["ENGINE"] else Order.objects.count()
