"""Killed embedded servers and guardians, and the remains of a killed start."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from lockwork.runtime.embedded import open_shared
from lockwork.runtime.embedded import server as embedded_server
from runtime.embedded.users import MARKS, Watched, client, users

pytestmark = MARKS


def test_next_user_gets_new_server_after_guardian_is_killed(home: Path, watch: type[Watched]) -> None:
    with users(home, 1) as (one,):
        server = watch(one.pid)
        os.kill(server.parent(), signal.SIGKILL)
        with users(home, 2) as (two, three):
            assert two.pid == three.pid != server.pid
            server.wait()


def test_server_ends_with_its_killed_guardian(home: Path, watch: type[Watched]) -> None:
    with open_shared(home) as opened:
        server = watch(opened.pid)
        os.kill(server.parent(), signal.SIGKILL)
        server.wait()


def test_next_user_ends_server_without_guardian(home: Path, watch: type[Watched]) -> None:
    # a stopped server cannot follow its guardian, so the next user must end it
    with open_shared(home) as opened:
        server = watch(opened.pid)
        guardian = watch(server.parent())
        os.kill(server.pid, signal.SIGSTOP)
        os.kill(guardian.pid, signal.SIGKILL)
        guardian.wait()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(embedded_server, "_END_LIMIT", 0.1)
            with open_shared(home) as again:
                assert again.pid != server.pid
                server.wait()  # a stopped server does not end without a signal


def test_next_user_gets_new_server_after_server_is_killed(home: Path, watch: type[Watched]) -> None:
    with open_shared(home) as first, client(first.url) as redis_client:
        redis_client.set("kept", "yes")
        server = watch(first.pid)
        guardian = watch(server.parent())
        os.kill(server.pid, signal.SIGKILL)
        # at once: the old guardian may still run
        with open_shared(home) as second:
            assert second.pid != server.pid
            guardian.wait()
            # connections to the old address work again, because the address is the same
            assert redis_client.get("kept") == "yes"
            first.close()
            assert redis_client.ping()


def test_leftovers_of_a_killed_start_do_not_block_the_next_start(home: Path) -> None:
    home.mkdir(mode=0o700)
    (home / "server").write_text('{"pid": 1')
    (home / "server.sock").write_text("")
    with open_shared(home) as opened, client(opened.url) as redis_client:
        assert redis_client.ping()


@pytest.mark.parametrize("text", ["", '{"pid": 12', '{"pid": 0, "host": "h", "socket": "s"}', "[]", "null", "\0"])
def test_incomplete_server_record_is_ignored(tmp_path: Path, text: str) -> None:
    (tmp_path / "server").write_text(text)
    assert embedded_server._read_record(tmp_path) is None
