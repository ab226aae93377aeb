"""Errors of an app, registered and unregistered."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from lockwork import Lockwork

lw = Lockwork()


@lw.error_type
class OutOfStock(Exception):
    """An error whose `__init__` does not take the message."""

    since: datetime

    def __init__(self, sku: str, left: int) -> None:
        super().__init__(f"{sku}: only {left} left")
        self.sku = sku
        self.left = left
        self.since = datetime(2026, 11, 21, tzinfo=UTC)


@lw.error_type(name="shop.Refused")
class Refused(ValueError):
    pass


@lw.error_type
class Holds(Exception):
    def __init__(self, what: object) -> None:
        super().__init__("it holds something")
        self.what = what


class Stranger(Exception):
    pass


class VeryOut(OutOfStock):
    """An unregistered error with a registered parent."""


def make(what: str) -> Exception:
    made: dict[str, Any] = {
        "out": lambda: OutOfStock("phone", 2),
        "refused": lambda: Refused("card", 7),
        "object": lambda: Holds(object()),
        "long": lambda: Holds("x" * 10_000),
        "stranger": lambda: Stranger("who?"),
        "child": lambda: VeryOut("phone", 1),
        "namesake": lambda: type("OutOfStock", (Exception,), {})("another one of this name"),
        "builtin": lambda: ValueError("bad"),
        "noted": lambda: noted(),
        "tree": lambda: ExceptionGroup("several", [ValueError("one"), Refused("two")]),
        "long name": lambda: type("N" * 600, (Exception,), {})("odd"),
    }
    error: Exception = made[what]()
    return error


def noted() -> Exception:
    error = Refused("card", 7)
    error.add_note("a note")
    return error


@lw.task(retries=0)
async def fails(what: str) -> None:
    raise make(what)


@lw.task(retries=0)
def fails_in_a_thread(what: str) -> None:
    raise make(what)
