"""The slot of a partition: its tag's suffix puts it where the rule of docs/keys.md says, and partitions are even."""

from __future__ import annotations

import pytest
from redis.crc import key_slot

from lockwork.protocol import slots
from lockwork.protocol.keys import QueueKeys

QUEUES = [f"orders:{number}" if number % 2 else f"q\u00fceue-{number * 7919}" for number in range(1000)]


def shards(count: int) -> list[range]:
    """The slots of each shard, as `redis-cli --cluster create` divides them."""
    size = slots.SLOTS / count
    ends = [int(number * size - 1 + 0.5) + 1 for number in range(1, count)]
    return [range(begin, end) for begin, end in zip([0, *ends], [*ends, slots.SLOTS], strict=True)]


def shard_of(slot: int, count: int) -> int:
    return next(number for number, shard in enumerate(shards(count)) if slot in shard)


def worst_difference(queue: str, count: int, most: int) -> int:
    """Return the largest difference in partitions between two shards, over all counts up to `most`."""
    owners = [number for number, shard in enumerate(shards(count)) for _ in shard]
    counts, worst = [0] * count, 0
    for partition in range(most):
        counts[owners[slots.partition_slot(queue, partition)]] += 1
        worst = max(worst, max(counts) - min(counts))
    return worst


def test_three_shards_are_divided_as_redis_cli_divides_them() -> None:
    assert shards(3) == [range(5461), range(5461, 10923), range(10923, 16384)]


def test_worked_example_of_the_docs() -> None:
    assert slots.slot("123456789") == 0x31C3 % slots.SLOTS
    assert slots.partition_slot("mail", 2) == 9162
    assert slots.tag("mail/2") == "q:mail/2/3j6h"


def test_first_tags_never_change() -> None:
    """Jobs wait where earlier versions have put them; so these must never change."""
    tags = [slots.tag(queue) for queue in ("mail", "mail/0", "mail/1", "mail/255", "\u6ce8\u6587/0")]
    assert tags == ["q:mail", "q:mail/0/3mo4", "q:mail/1/00h2", "q:mail/255/1oji", "q:\u6ce8\u6587/0/0iil"]


@pytest.mark.parametrize("queue", QUEUES[:100])
def test_tag_lies_in_the_wanted_slot(queue: str) -> None:
    for partition in (0, 1, 2, 63, 255):
        keys = QueueKeys("lw", f"{queue}/{partition}")
        assert key_slot(keys.jobs.encode()) == slots.partition_slot(queue, partition)
        assert key_slot(keys.stats.encode()) == slots.partition_slot(queue, partition)


def test_partitions_of_1000_queues_are_even_on_three_shards() -> None:
    for queue in QUEUES:
        where = [shard_of(slots.slot(slots.tag(f"{queue}/{partition}")), 3) for partition in range(6)]
        assert sorted(where[:3]) == sorted(where[3:]) == [0, 1, 2]


def test_growth_of_1000_queues_moves_no_partition_and_stays_even() -> None:
    """From 6 to 12 and 24 partitions on three shards, and from three shards to six."""
    for queue in QUEUES:
        places = [slots.slot(slots.tag(f"{queue}/{partition}")) for partition in range(24)]
        for count in (6, 12, 24):
            each = [shard_of(place, 3) for place in places[:count]]
            assert {each.count(shard) for shard in range(3)} == {count // 3}
        halves = [shard_of(place, 6) for place in places[:12]]
        assert max(halves.count(shard) for shard in range(6)) <= 3


@pytest.mark.parametrize(
    ("count", "up_to_64", "up_to_256"), [(2, 2, 4), (3, 1, 1), (4, 2, 4), (5, 2, 6), (6, 2, 4), (7, 2, 4), (8, 2, 4)]
)
def test_partitions_are_even_on_any_number_of_shards(count: int, up_to_64: int, up_to_256: int) -> None:
    assert max(worst_difference(queue, count, 64) for queue in QUEUES[:200]) == up_to_64
    assert max(worst_difference(queue, count, 256) for queue in QUEUES[:60]) == up_to_256


def test_partitions_of_one_queue_have_different_slots() -> None:
    for queue in QUEUES[:100]:
        assert len({slots.partition_slot(queue, partition) for partition in range(256)}) == 256


def test_partitions_of_several_queues_are_spread_too() -> None:
    assert len({slots.partition_slot(queue, 0) for queue in QUEUES}) == 96
    first = [shard_of(slots.partition_slot(queue, 0), 3) for queue in QUEUES]
    assert all(first.count(shard) > 250 for shard in range(3))


@pytest.mark.parametrize("queue", ["mail", "q:mail", "mail/0", "mail/255", "a/9"])
def test_queue_is_read_from_its_tag(queue: str) -> None:
    assert slots.queue_of(slots.tag(queue).removeprefix("q:")) == queue
