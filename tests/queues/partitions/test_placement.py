"""The placement of names on partitions, and the validation of partition settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from redis.crc import key_slot

from lockwork import ConfigError, Lockwork
from lockwork.partitions import Partitions, numbered, routing_name
from lockwork.protocol.keys import QueueKeys, checked_queue
from lockwork.protocol.queue.record_header import JobLimits, head

NAMES = [f"order:{number}" for number in range(4000)]


def test_partition_of_a_name_never_changes() -> None:
    """Jobs stay on the partition where earlier versions put them, so these numbers must never change."""
    found = [numbered(name, 4) for name in ("order:1", "order:2", "tenant:a", "b\u00fccher", "\u6ce8\u6587")]
    assert found == [1, 3, 1, 2, 3]
    assert numbered("anything", 1) == 0


def uneven(numbering: Callable[[str, int], int], partitions: int) -> float:
    """Return the largest deviation of a partition from its share, in shares."""
    counts = Counter(numbering(name, partitions) for name in NAMES)
    share = len(NAMES) / partitions
    return max(abs(counts[number] - share) for number in range(partitions)) / share


@pytest.mark.parametrize("partitions", [2, 3, 4, 7, 16])
def test_names_are_spread_evenly(partitions: int) -> None:
    assert uneven(numbered, partitions) < 0.2


def test_spread_check_catches_uneven_numbering() -> None:
    assert uneven(lambda name, partitions: len(name) % partitions, 4) > 0.2


@pytest.mark.parametrize(
    ("record", "name"),
    [
        (head(1, 4), None),
        (head(1, 4, "key"), "key"),
        (head(1, 4, "", "group", JobLimits(2, 3, 4)), "group"),
        (head(1, 4, "key", "group"), "key"),
        (head(1, 4, unique="ds%2Fend/report/1"), "report/1"),
        (head(1, 4, "", "group", unique="ss%2Fend/group"), "group"),
        (head(1, 4, "a%2Cb%3B"), "a%2Cb%3B"),
    ],
)
def test_placement_is_read_from_the_record(record: bytes, name: str | None) -> None:
    assert routing_name(record + b'["s/end",["a;b,c"]]') == name


def test_partitions_lie_in_different_slots() -> None:
    slots = {
        number: {key_slot(key.encode()) for key in (keys.jobs, keys.stats, *keys.ready)}
        for number in range(4)
        for keys in [QueueKeys("lw", f"mail/{number}")]
    }
    assert all(len(found) == 1 for found in slots.values()), "all keys of one partition are in one slot"
    assert len(set.union(*slots.values())) == 4


@pytest.mark.parametrize("name", ["mail", "mail/0", "mail/9", "mail/10", "mail/255", "a:b/3"])
def test_names_of_queues_and_partitions(name: str) -> None:
    assert checked_queue(name) == name


@pytest.mark.parametrize(
    "name", ["mail/", "/1", "mail/01", "mail/256", "mail/1000", "mail/-1", "mail/1/2", "mail/x", "a/b", "mail/\u0663"]
)
def test_slash_in_queue_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"must not contain a slash, except in the name of a partition"):
        checked_queue(name)


@pytest.mark.parametrize(
    ("partitions", "complaint"),
    [
        ({"mail": 0}, "1 to 256 partitions, not 0"),
        ({"mail": 257}, "1 to 256 partitions, not 257"),
        ({"mail": True}, "1 to 256 partitions, not True"),
        ({"mail": "4"}, "1 to 256 partitions, not '4'"),
        ({"mail": 2.0}, "1 to 256 partitions, not 2.0"),
        ({"mail/2": 4}, "of the whole queue, 'mail'"),
        ({"ma il": 4}, "white space"),
        ({5: 4}, "a queue's name"),
        (["mail"], "says how many each queue has"),
        (4, "says how many each queue has"),
        ({"x" * 199: 4}, "1 to 200 characters"),
    ],
)
def test_wrong_partition_counts_are_refused(partitions: Any, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Lockwork("redis://127.0.0.1:1", partitions=partitions)


def test_mistyped_partition_setting_gets_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="did you mean 'partitions'"):
        Lockwork("redis://127.0.0.1:1", partition={"mail": 4})  # type: ignore[call-arg]


def test_settings_can_be_compared_and_hashed() -> None:
    assert Partitions.read({"mail": 4}) == Partitions({"mail": 4}) != Partitions({"mail": 5})
    assert hash(Lockwork("redis://127.0.0.1:1", partitions={"mail": 4}).config)


def test_task_on_a_single_partition_is_refused(four: Lockwork) -> None:
    with pytest.raises(ConfigError, match="that of the whole queue, 'mail', not 'mail/2'"):
        four.task(queue="mail/2")


@pytest.mark.parametrize("queue", ["mail", "other"])
def test_names_that_decide_two_partitions_are_refused(four: Lockwork, queue: str) -> None:
    def define(**options: Any) -> Any:
        def send(order: int, tenant: int) -> None: ...

        made: Any = four.task(queue=queue, **options)
        return made(send)

    pairs: list[dict[str, Any]] = [
        {"key": "{order}", "group": "{tenant}"},
        {"key": "{order}", "unique": True},
        {"group": "{tenant}", "unique": "{order}"},
    ]
    for number, options in enumerate(pairs):
        if queue == "other":
            define(name=f"s{number}", **options)  # the rule applies to partitioned queues only
        else:
            with pytest.raises(ConfigError, match=r"its queue has partitions, and (key|group)=.* could decide two"):
                define(**options)
    same = define(name="same", key="{order}", unique="{order}")
    if queue == "mail":
        assert same.enqueue(5, 1).queue == f"mail/{numbered('5', 4)}"
        with pytest.raises(ConfigError, match="could decide two"):
            same.options(group="{tenant}")
        assert same.options(key=None, unique=None, group="{tenant}").enqueue(5, 1).queue == f"mail/{numbered('1', 4)}"
