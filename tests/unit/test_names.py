"""Names in code become parts of keys unchanged, or are refused. Names of users' data are in test_stored_names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lockwork import ConfigError, Lockwork
from lockwork.protocol import keys

BAD = ["", "a" * 201, "a b", "a\tb", "a\nb", "a\r\nb", "\x00", "a\x7f", "{a}", "a{", "}a", "\u2028", "\u00a0"]


@pytest.mark.parametrize(
    "name", ["a", "a" * 200, "order:42", "été", "日本", "a/b", "a*b?[c]", "\U0001f600", "..", "%s"]
)
def test_names_that_can_be(name: str) -> None:
    assert keys.checked(name, "a name") == name


@pytest.mark.parametrize("name", [*BAD, None, 5, b"a", ["a"]])
def test_names_that_cannot_be(name: object) -> None:
    with pytest.raises(ConfigError) as caught:
        keys.checked(name, "a queue's name")
    text = str(caught.value)
    said = "1 to 200 characters without white space, braces or control" if isinstance(name, str) else "text, not "
    assert text.startswith(f"a queue's name must be {said}")
    assert len(text) < 200
    assert all(character.isprintable() for character in text)


def test_lone_surrogate_in_a_name_is_refused() -> None:
    with pytest.raises(ConfigError):
        keys.checked("a\udcff", "a name")


@pytest.mark.parametrize(
    "make",
    [
        lambda lw, name: lw.queue(name),
        lambda lw, name: lw.stock("phone", 5, queue=name),
        lambda lw, name: lw.task(name=name)(print),
        lambda lw, name: lw.task(queue=name)(print),
        lambda lw, name: lw.job(name),
        lambda lw, name: lw.job("id", queue=name),
        lambda lw, name: lw.stock("phone", 5).confirm(name),
        lambda lw, name: lw.stock("phone", 5).release(name),
        lambda lw, name: lw.stock("phone", 5).get(name),
    ],
)
@pytest.mark.parametrize("name", ["", "a{b}", "a\nb", "a" * 201])
def test_names_are_checked_before_a_command_is_sent(make: Callable[[Lockwork, str], object], name: str) -> None:
    with Lockwork("redis://127.0.0.1:1", patience=0) as lw, pytest.raises(ConfigError, match="1 to 200 characters"):
        make(lw, name)


def test_slash_is_kept_for_partitions() -> None:
    assert keys.checked_queue("orders/1") == "orders/1"
    with pytest.raises(ConfigError, match="must not contain a slash"):
        keys.checked_queue("orders/new")
    assert keys.lock("lw", "a/b") == "lw:{lock:a/b}"


def test_keys_of_a_queue_share_one_hash_tag() -> None:
    queue = keys.QueueKeys("shop", "orders")
    every = [
        queue.jobs,
        *queue.ready,
        queue.due,
        queue.tries,
        queue.errors,
        *queue.results,
        queue.watch,
        queue.idle_workers,
    ]
    every += [queue.workers, queue.stats, queue.dead, queue.run("host/1/x"), *queue.stock("phone")]
    assert len(set(every)) == len(every)
    for key in every:
        assert key.startswith("shop:{q:orders}:")


def test_prefix_separates_apps() -> None:
    assert keys.lock("a", "x") != keys.lock("b", "x")
    assert keys.channel("a", "p") != keys.channel("b", "p")
