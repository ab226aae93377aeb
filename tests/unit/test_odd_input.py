"""Mistaken arguments: one ConfigError with the fix, before any command is sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from lockwork import ConfigError, Lockwork
from lockwork.compat.plain import PlainLock
from lockwork.compat.timestamp import TimestampLock


@pytest.fixture
def app() -> Iterator[Lockwork]:
    # no server listens there: any command would fail
    with Lockwork("redis://127.0.0.1:1", patience=0) as lw:
        yield lw


@pytest.mark.parametrize(
    ("template", "argument", "text"),
    [
        ("user:{user.id}", 5, "AttributeError: 'int' object has no attribute 'id'"),
        ("user:{user[id]}", {"name": "ada"}, "KeyError: 'id'"),
        ("user:{user:>5d}", "ada", "ValueError: "),
    ],
)
def test_arguments_of_which_no_name_can_be_made(app: Lockwork, template: str, argument: Any, text: str) -> None:
    def work(user: Any) -> None: ...

    for option in ("key", "group", "unique"):
        task: Any = app.task(name=option, **{option: template})(work)  # type: ignore[call-overload]
        with pytest.raises(ConfigError, match=f"cannot be built from .* and these arguments: {text}"):
            task.enqueue(argument)
    with pytest.raises(ConfigError, match="a lock's name cannot be built from"):
        app.lock(template)(work)(argument)


@pytest.mark.parametrize("wrong", [5, "tell", [print]])
def test_callback_must_be_callable(app: Lockwork, wrong: Any) -> None:
    for make in (app.lock, app.rwlock, app.multilock, lambda name, **options: app.semaphore(name, 3, **options)):
        with pytest.raises(ConfigError, match="on_lost is a function that takes the grant, not"):
            make("a", on_lost=wrong)
    for name in ("on_gain", "on_loss"):
        with pytest.raises(ConfigError, match=f"{name} is a function that takes the grant, not"):
            app.election("a", **{name: wrong})


@pytest.mark.parametrize("tags", [5, "one", None])
def test_tags_are_a_list(app: Lockwork, tags: Any) -> None:
    with pytest.raises(ConfigError, match="tags are a list of texts"):
        app.lock("a", tags=tags)
    with pytest.raises(ConfigError, match="tags must be a list of texts"):
        app.task(print).options(tags=tags)


@pytest.mark.parametrize("name", [5, "", "x" * 201])
def test_wrong_name_of_an_error_is_refused(app: Lockwork, name: Any) -> None:
    with pytest.raises(ConfigError, match="an error's name is text of 1 to 200 characters"):
        app.error_type(name=name)(KeyError)


@pytest.mark.parametrize(
    ("servers", "text"),
    [
        ("redis://a", "a list of servers, not"),
        (5, "a list of servers, not"),
        ([redis.Redis()] * 3, "URLs or Lockwork objects, not"),
        (["redis://a", "redis://b"], "an odd number of servers"),
    ],
)
def test_wrong_servers_of_a_quorum_are_refused(app: Lockwork, servers: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        app.quorum(servers)


@pytest.mark.parametrize("made", [PlainLock, TimestampLock])
def test_shared_lock_needs_an_app(made: Any) -> None:
    for wrong in (redis.Redis(), "redis://localhost"):
        with pytest.raises(ConfigError, match="made with a Lockwork object and the key"):
            made(wrong, "PRODUCT_LOCK_KEY:42")


def test_stock_needs_a_call_and_not_a_task(app: Lockwork) -> None:
    work: Any = app.task(print)
    phones = app.stock("phone", 5)
    for give in (phones.reserve, phones.confirm, phones.release, phones.refund):
        wrong: Any
        for wrong in (work, print, "print"):
            with pytest.raises(ConfigError, match="a stock enqueues a call of a task, such as place_order.call"):
                give("ada", enqueue=wrong)


def test_quantities_of_a_stock_are_limited(app: Lockwork) -> None:
    with pytest.raises(
        ConfigError, match="quantity must be a whole number from 0 to 1,000,000,000,000, not 10000000000000"
    ):
        app.stock("phone", 10**13)
    with pytest.raises(ConfigError, match="n must be a whole number from 1 to"):
        app.stock("phone", 1).reserve("ada", 0)


@pytest.mark.parametrize("ids", [42, None, [42], [b"42"], 4.2])
def test_delay_queue_id_must_be_text(app: Lockwork, ids: Any) -> None:
    with pytest.raises(ConfigError, match="an id is text of 1 to 512 characters"):
        app.delay_queue("orders").add(ids)
