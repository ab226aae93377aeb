"""--queues as written on the command line."""

from __future__ import annotations

import pytest

from lockwork import ConfigError
from lockwork.cli.options import size
from lockwork.cli.worker import read_queues


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ((), {}),
        (("a",), {"a": None}),
        (("a,b:5",), {"a": None, "b": 5}),
        (("a", "b:5, c"), {"a": None, "b": 5, "c": None}),
        (("tenant:x",), {"tenant:x": None}),
        (("tenant:x:3",), {"tenant:x": 3}),
        (("a:--5",), {"a:--5": None}),
        (("api:v2", "api:1.2.3"), {"api:v2": None, "api:1.2.3": None}),
        (("mail:1e9:1",), {"mail:1e9": 1}),
    ],
)
def test_queue_list_is_parsed_into_names_and_weights(texts: tuple[str, ...], expected: dict[str, int | None]) -> None:
    assert read_queues(texts) == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a,,b", "empty name"),
        ("", "empty name"),
        (":5", "empty name"),
        ("a,a:2", "names 'a' twice"),
        ("a:0", "from 1 to 1000, not 0"),
        ("a:-1", "from 1 to 1000, not -1"),
        ("a:1001", "from 1 to 1000, not 1001"),
        ("a:" + "9" * 5000, "from 1 to 1000, not 999"),
        ("a:1e9", "the weight of queue 'a' must be a whole number from 1 to 1000, not 1e9"),
        ("a:2.5", "a whole number from 1 to 1000, not 2.5"),
        ("a:+5", r"a whole number from 1 to 1000, not \+5"),
        ("a b", "a queue's name"),
        ("a/b", "slash"),
    ],
)
def test_ambiguous_queue_lists_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        read_queues((text,))


@pytest.mark.parametrize(
    ("text", "bytes"), [("512MB", 512_000_000), ("1GiB", 1 << 30), ("1.5k", 1500), ("300m", 300_000_000)]
)
def test_sizes_are_parsed_with_units(text: str, bytes: int) -> None:
    assert size(text, "--max-memory") == bytes


@pytest.mark.parametrize("text", ["", "512", "MB", "-1MB", "0MB", "1 XB", "1MBs", "1,5GB", "9" * 400 + "MB"])
def test_wrong_sizes_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--max-memory must be"):
        size(text, "--max-memory")
