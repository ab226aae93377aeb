"""A viewer may call its functions with any arguments:

the cost depends on the data of the keys, not on the arguments.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from acl.test_commands_of_roles import VIEWER
from lockwork import Lockwork
from lockwork.protocol import functions, keys
from lockwork.protocol.announcements import announcements
from lockwork.protocol.effects import Argument, script_call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.locks import counts
from lockwork.protocol.scripts import script
from processes import until
from roles import load_functions

QUEUE = QueueKeys("lw", "mail")
OBJECTS: tuple[Any, ...] = (
    QUEUE,
    QUEUE.stock("phones"),
    keys.limiter("lw", "api"),
    keys.barrier("lw", "b"),
    keys.latch("lw", "l"),
    keys.delay_queue("lw", "dates"),
    announcements.APPS.keys("lw"),
    counts.keys("lw"),
)
NUMBERS = ("1e15", "-1e15", "1e300", "nan", "inf", "0")
TEXTS = ("1e300", "b:0:0:1:90000000000000000000:1", ".-" * 40, "ids", "m")


@pytest.fixture
def reader(url: str, admin: Any) -> Iterator[redis.Redis]:
    """A client that waits 4 s for a function."""
    if not load_functions(admin):
        pytest.skip("Redis 6.2 has no functions")
    with redis.Redis.from_url(url, socket_timeout=4, retry=None) as client:
        yield client


def read(reader: Any, admin: Any, name: str, names: Any, args: Any) -> Any:
    """Call a function; a long call is ended, and is an error."""
    try:
        return reader.execute_command("FCALL_RO", functions.function(script(name)), len(names), *names, *args)
    except redis.TimeoutError:
        until(lambda: killed(admin), "the function ends", 60)
        raise


def killed(admin: Any) -> bool:
    with contextlib.suppress(redis.ResponseError):
        return bool(admin.execute_command("FUNCTION", "KILL"))
    return False


def fill(lw: Lockwork) -> None:
    """Have something of each kind."""
    send = lw.task(name="send", queue="mail")(print)
    send.options(group="a").enqueue_many([()] * 5)
    lw.chain(send.call(), send.call()).enqueue()
    lw.limiter("api", "5/s").try_acquire()
    lw.stock("phones", 2, queue="mail").reserve("ada")
    lw.delay_queue("dates").add("x")
    lw.latch("l", 2).count_down()


@pytest.mark.parametrize("name", sorted(VIEWER))
def test_hostile_arguments_end_soon(name: str, lw: Lockwork, admin: Any, reader: Any) -> None:
    fill(lw)
    declared = script(name).declared
    fits = [each for each in OBJECTS if all(hasattr(each, key.name) for key in declared.own)]
    source = fits[0] if len(declared.own) > 1 and fits else "lw:{lock:a}"
    given: Any = {
        key.name: ["lw:{q:mail}:run:a"] if key.count is not None else "lw:{q:mail}:a" for key in declared.given
    }
    own = declared.own[:1]
    if own and own[0].count == 0:
        source = ["lw:{q:mail}:stock:phones"] * 3
    names = declared.keys(source if own else [], given)
    for number in NUMBERS:
        for text in TEXTS:
            args = [{"number": number, "flag": "1"}.get(kind, text) for _, kind, _ in declared.args]
            args += ["1e15", "a" * 300] * 3 * bool(declared.group or declared.rest)
            with contextlib.suppress(redis.ResponseError):
                read(reader, admin, name, names, args)
    lw.queue("mail").clear()


def test_pattern_with_repetitions_is_refused(admin: Any, reader: Any) -> None:
    """Matching one against a long id takes hours, and nothing can interrupt it."""
    args: list[Argument] = ["ids", 1, "", "", "", "", 9, 9, 9, 9, "", "", ".-" * 20 + "!", "", 0, 0, "a" * 200]
    call = script_call("search/page", QUEUE, args)
    with pytest.raises(redis.ResponseError, match="suffix has repetitions"):
        read(reader, admin, "search/page", call.keys, args)


def test_rule_beyond_exact_numbers_ends(lw: Lockwork, admin: Any, reader: Any) -> None:
    assert lw.limiter("api", "5/s").try_acquire()
    for limit in ("9" * 20, "9" * 400, str(2**60 + 256)):
        read(reader, admin, "synchronizers/limiter_state", keys.limiter("lw", "api")[:2], [f"b:0:0:1:{limit}:1"])


def test_minutes_that_no_clock_has_end(admin: Any, reader: Any) -> None:
    call = script_call("metrics/read", QUEUE, ["m", 60, "", "", ""])
    for count, last in (("1e9", ""), ("60", "1e300"), ("1e300", "1e300"), ("nan", "nan"), ("60", "-1e300")):
        read(reader, admin, "metrics/read", call.keys, ["m", count, last, "", "send"])


def test_copies_of_a_record_are_bounded(lw: Lockwork, admin: Any, reader: Any) -> None:
    admin.hset(QUEUE.jobs, "big", "a" * 1_000_000)
    args: list[Argument] = ["f", 10_000_000]
    for _ in range(10_000):
        args += [1, "big"]
    call = script_call("flows/graph", QUEUE, args)
    assert sum(len(part) for part in read(reader, admin, "flows/graph", call.keys, call.args) if part) < 1_000_000
    admin.delete(QUEUE.jobs)
