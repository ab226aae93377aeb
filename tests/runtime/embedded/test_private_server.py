"""A private embedded server, which ends at the latest with its owner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lockwork.errors import ConfigError
from lockwork.runtime.embedded import start_private
from lockwork.runtime.embedded.folder import try_lock
from runtime.embedded.users import LIMIT, MARKS, Watched, client, users

pytestmark = MARKS


def test_private_server_stops_after_close(home: Path, watch: type[Watched]) -> None:
    with start_private(home) as opened:
        server = watch(opened.pid)
        guardian = watch(server.parent())
    assert not server.alive()
    assert not guardian.alive()
    opened.close()


def test_private_server_with_killed_guardian_stops_after_close(home: Path, watch: type[Watched]) -> None:
    with start_private(home) as opened:
        server = watch(opened.pid)
        os.kill(server.parent(), signal.SIGKILL)
    free = try_lock(home / "server")
    assert free is not None
    os.close(free)
    server.wait()  # a process loses its file locks just before its end


@pytest.mark.parametrize(("durable", "kept"), [(True, "yes"), (False, None)])
def test_private_server_keeps_data_if_durable(home: Path, durable: bool, kept: str | None) -> None:
    with start_private(home, durable=durable) as opened, client(opened.url) as redis_client:
        redis_client.set("kept", "yes")
    with start_private(home, durable=durable) as opened, client(opened.url) as redis_client:
        assert redis_client.get("kept") == kept


def test_private_server_without_close_ends_at_exit(home: Path) -> None:
    code = "import sys, pathlib; from lockwork.runtime.embedded import start_private\n"
    code += "start_private(pathlib.Path(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-X", "dev", "-c", code, home], capture_output=True, check=True)
    assert done.stderr == b""


def test_second_private_server_in_a_folder_is_refused(home: Path) -> None:
    with start_private(home) as opened, client(opened.url) as redis_client:
        with pytest.raises(ConfigError, match="already runs"):
            start_private(home)
        assert redis_client.ping()


def test_private_server_starts_right_after_its_owner_was_killed(home: Path, watch: type[Watched]) -> None:
    with users(home, 1, "start_private") as (owner,):
        server = watch(owner.pid)
        # without waiting: the guardian may not have noticed yet
        owner.process.kill()
        owner.process.wait(LIMIT)
        with start_private(home) as opened:
            assert opened.pid != server.pid
            server.wait()
