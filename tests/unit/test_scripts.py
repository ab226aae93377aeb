"""The headers of the server scripts declare keys and arguments once, and every call is checked against its header."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import redis

import lockwork.protocol
from lockwork.protocol import keys
from lockwork.protocol.announcements import announcements
from lockwork.protocol.declarations import DeclarationError
from lockwork.protocol.effects import script_call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.locks import counts
from lockwork.protocol.scripts import assemble, names, on_cluster, script

LUA = Path(lockwork.protocol.__file__).parent
QUEUE = QueueKeys("lw", "mail")
OBJECTS = (
    QUEUE,
    QUEUE.stock("phone"),
    keys.limiter("lw", "a"),
    keys.barrier("lw", "a"),
    keys.latch("lw", "a"),
    keys.delay_queue("lw", "a"),
    announcements.WORKERS.keys("lw"),
    counts.keys("lw"),
)
_LOCALS = 200
"""Limit of local variables of a function in Lua 5.1."""


@pytest.mark.parametrize("name", names())
def test_script_is_assembled_and_compiles(name: str, admin: redis.Redis) -> None:
    for made in (script(name), on_cluster(name)):
        assert admin.script_load(made.source) == made.sha
        assert len(re.findall(r"^local ", made.source, re.MULTILINE)) + len(made.declared.names) < _LOCALS


@pytest.mark.parametrize("name", names())
def test_declared_keys_belong_to_one_keys_object(name: str) -> None:
    own = script(name).declared.own
    if len(own) > 1:
        fits = [object for object in OBJECTS if all(hasattr(object, key.name) for key in own)]
        assert len(fits) == 1, own


@pytest.mark.parametrize("file", sorted(LUA.rglob("*.lua")), ids=lambda file: file.stem)
def test_scripts_use_names_instead_of_key_numbers(file: Path) -> None:
    any_key = "string.match(KEYS[1], '{(.-)}') or KEYS[1]"  # on a Cluster all keys have one hash tag
    text = _without_pushed(file.read_text()).replace(any_key, "")
    assert not re.findall(r"KEYS\[|KEYS \[|#KEYS|unpack\(KEYS|\bARGV\[\d", text)


def _without_pushed(text: str) -> str:
    """One script writes the job that is pushed next over its own arguments."""
    return text.replace("ARGV[1], ARGV[2], ARGV[3] = id, record, delay", "")


def test_keys_of_a_queue_are_taken_by_name() -> None:
    call = script_call("queue/cancel_requests", QUEUE, ["j1", b"1 5 r"], run=QUEUE.run("s"))
    assert call.keys == (QUEUE.job_notes, QUEUE.run("s"))
    assert not call.marked
    assert script_call("queue/revive", QUEUE, [0, "j1", 0]).marked, "its first argument is `again`"


def test_call_with_wrong_keys_is_refused() -> None:
    with pytest.raises(DeclarationError, match="queue/cancel_requests: the key 'run' is missing"):
        script_call("queue/cancel_requests", QUEUE, ["j1", b"1 5 r"])
    with pytest.raises(DeclarationError, match="queue/heartbeat: no keys run"):
        script_call("queue/heartbeat", QUEUE, [1000], run="r")
    with pytest.raises(DeclarationError, match="queue/heartbeat: StockKeys has no key 'workers'"):
        script_call("queue/heartbeat", QUEUE.stock("phone"), [1000])
    with pytest.raises(DeclarationError, match="synchronizers/barrier_leave: one key was given for"):
        script_call("synchronizers/barrier_leave", "lw:{barrier:a}", ["r1"])
    with pytest.raises(DeclarationError, match="does not fit the key 'lock'"):
        script_call("locks/state", ["a", "b"], [0])
    with pytest.raises(DeclarationError, match="does not fit the key 'locks'"):
        script_call("locks/multi_abandon", "a", ["owner", "request"])


def test_call_with_wrong_arguments_is_refused() -> None:
    with pytest.raises(DeclarationError, match=r"locks/raise_fence: 2 arguments for owner, request, fence"):
        script_call("locks/raise_fence", "a", ["owner", "request"])
    with pytest.raises(DeclarationError, match=r"queue/push: 4 arguments for again, some, \(id, record, delay\)"):
        script_call("queue/push", QUEUE, [0, 0, "j1", b""])
    script_call("locks/release", "a", [0, "owner", 1])
    script_call("locks/release", "a", [0, "owner", 1, 500])
    script_call("locks/release", "a", [0, "owner", 1, 0, 7])
    with pytest.raises(
        DeclarationError, match=r"locks/release: 6 arguments for again, owner, fence, at_least\?, ticket\?"
    ):
        script_call("locks/release", "a", [0, "owner", 1, 500, 2, 3])


def test_part_without_its_key_is_refused() -> None:
    with pytest.raises(DeclarationError, match="queue/heads: part queue/unique_names needs the key 'jobs'"):
        assemble("queue/heads", {"queue/heads": "-- KEYS: ready*3\n-- include: queue/unique_names\n"})


def test_part_without_a_name_that_it_needs_is_refused() -> None:
    with pytest.raises(DeclarationError, match="locks/state: part step needs step"):
        assemble("locks/state", {"locks/state": "-- KEYS: log\n-- include: step\n"})


def test_part_that_hides_an_argument_is_refused() -> None:
    with pytest.raises(DeclarationError, match="locks/state: part now hides now"):
        assemble("locks/state", {"locks/state": "-- KEYS: lock\n-- ARGV: now\n-- include: now\n"})


def test_header_that_declares_a_name_twice_is_refused() -> None:
    with pytest.raises(DeclarationError, match="locks/state: declared twice: lock"):
        assemble("locks/state", {"locks/state": "-- KEYS: lock\n-- ARGV: lock\n"})


def test_codes_of_a_header_are_lua_locals_and_python_names() -> None:
    script = assemble(
        "locks/state", {"locks/state": "-- KEYS: lock\n-- Codes: granted=1, refused=-2\nreturn REFUSED\n"}
    )
    assert "local GRANTED, REFUSED = 1, -2\n" in script.source
    assert script.declared.codes == (("granted", 1), ("refused", -2))


def test_codes_of_a_part_are_included() -> None:
    texts = {"locks/state": "-- KEYS: lock\n-- Codes: <step>, other=-1\n", "parts/step": "-- Codes: done=1\n"}
    assert assemble("locks/state", texts).declared.codes == (("done", 1), ("other", -1))


def test_code_without_a_number_is_refused() -> None:
    with pytest.raises(DeclarationError, match="locks/state: no code 'granted'"):
        assemble("locks/state", {"locks/state": "-- KEYS: lock\n-- Codes: granted\n"})
