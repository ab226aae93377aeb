"""Protocols that run side by side: their calls of each turn leave together."""

from __future__ import annotations

from typing import Any

import pytest

from lockwork import ServerUnavailable
from lockwork.protocol.effects import Call, Calls, Protocol, Shards, concurrently, on_each_shard, script_call

CALL = script_call("index/scan", [], ["0", "*", 1])


def steps(count: int, ended: list[int]) -> Protocol[list[Any]]:
    """Make `count` calls; return the replies."""
    replies: list[Any] = []
    try:
        for _ in range(count):
            reply = yield CALL
            replies.append(reply)
    finally:
        ended.append(count)
    return replies


def played(protocol: Protocol[Any], *replies: Any) -> tuple[list[int], Any]:
    """Answer each effect; returns how many calls each had, 0 for another effect, and the result."""
    sizes: list[int] = []
    effect = next(protocol)
    for reply in replies:
        sizes.append(len(effect.calls) if isinstance(effect, Calls) else int(isinstance(effect, Call)))
        try:
            effect = protocol.send(reply)
        except StopIteration as end:
            return sizes, end.value
    raise AssertionError(f"it asks for more: {effect}")


def test_protocol_gets_its_own_replies() -> None:
    protocols = [steps(1, []), steps(3, []), steps(2, [])]
    sizes, results = played(concurrently(protocols), ["a", "b", "c"], ["d", "e"], ["f"])
    assert sizes == [3, 2, 1]
    assert results == [["a"], ["b", "d", "f"], ["c", "e"]]


def test_single_protocol_makes_plain_calls() -> None:
    assert played(concurrently([steps(2, [])]), "a", "b") == ([1, 1], [["a", "b"]])


def test_empty_list_of_protocols_makes_no_call() -> None:
    with pytest.raises(StopIteration) as end:
        next(concurrently([]))
    assert end.value.value == []


def test_error_of_one_ends_the_others() -> None:
    ended: list[int] = []
    protocol = concurrently([steps(5, ended), steps(6, ended)])
    next(protocol)
    with pytest.raises(ServerUnavailable, match="away"):
        protocol.send(["a", ServerUnavailable("it is away")])
    assert sorted(ended) == [5, 6]


def test_error_that_one_handles() -> None:
    def patient() -> Protocol[str]:
        try:
            yield CALL
        except ServerUnavailable:
            return "away"
        return "there"

    assert played(concurrently([patient(), patient()]), ["a", ServerUnavailable("it is away")])[1] == ["there", "away"]


def test_on_each_shard_calls_every_shard() -> None:
    def ask(shard: int) -> Protocol[int]:
        assert isinstance((yield Shards()), int)  # other effects pass, one after the other
        yield CALL
        return shard

    sizes, results = played(on_each_shard(ask), 3, 3, 3, 3, ["a", "b", "c"])
    assert sizes == [0, 0, 0, 0, 3]
    assert results == [0, 1, 2]
