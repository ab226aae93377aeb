"""Hash tags of queues: the tag of a partition ends in four characters that put it in a chosen slot of a Cluster.

The slots of a queue's partitions follow a fixed sequence. Each beginning of it is spread evenly over 2 to 8 shards of
equal size, and a further partition moves no other. The rule is part of the contract of docs/keys.md ("The slot of a
partition"); jobs wait where it has put them, so it must never change.
"""

from __future__ import annotations

from binascii import crc_hqx

SLOTS = 16384
_CELLS = 840  # the least common multiple of 2 to 8: each shard is a whole number of cells
_THIRD = _CELLS // 3
_STEP = 118
_STARTS = (241, 252, 250)
_DIGITS = "01234567hijklmno"
# Bit i of a slot changes, and no other, when the number of the suffix is XORed with entry i.
_FLIPS = (8026, 14014, 13385, 574, 15363, 12114, 10896, 13389, 4356, 12602, 7754, 13470, 12297, 7212)


def tag(queue: str) -> str:
    """Return the hash tag of a queue, or of one of its partitions such as "mail/2", without the braces."""
    name, slash, partition = queue.partition("/")
    if not slash:
        return f"q:{queue}"
    begin = f"q:{queue}/"
    differing = slot(f"{begin}{_DIGITS[0] * 4}") ^ partition_slot(name, int(partition))
    number = 0
    for bit, flip in enumerate(_FLIPS):
        if differing >> bit & 1:
            number ^= flip
    return begin + "".join(_DIGITS[number >> shift & 15] for shift in (12, 8, 4, 0))


def queue_of(tag: str) -> str:
    """Return the queue, or the partition, whose keys have this hash tag, given without its `q:`."""
    return "/".join(tag.split("/")[:2])


def slot(tag: str) -> int:
    """Return the Cluster slot of all keys with this hash tag."""
    return crc_hqx(tag.encode(), 0) % SLOTS


def of_key(key: str) -> int:
    """Return the Cluster slot of a key."""
    return slot(tag_of(key))


def tag_of(key: str) -> str:
    """Return the hash tag of a key: the text in its first braces, or the whole key if they are missing or empty."""
    start = key.find("{") + 1
    end = key.find("}", start) if start else -1
    return key[start:end] if end > start else key


def partition_slot(name: str, partition: int) -> int:
    """Return the slot of one partition of the queue `name`."""
    variant = crc_hqx(name.encode(), 0)  # the partitions of different queues get different slots
    turn, third = divmod(variant % 3 + partition, 3)
    cell = third * _THIRD + (_STARTS[third] + turn * _STEP) % _THIRD
    # a shard's border is at most one slot away from a cell's, so two slots at each end of a cell stay free
    number = SLOTS * cell // _CELLS + 2 + variant // 6 % 16
    return number if variant // 3 % 2 == 0 else SLOTS - 1 - number
