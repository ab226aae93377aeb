"""The embedded server that a user's processes share, which ends with its last user."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import zygote
from lockwork.runtime.embedded import open_shared, places
from runtime.embedded.users import LIMIT, MARKS, Watched, client, users

pytestmark = MARKS


def test_processes_share_one_server(home: Path, watch: type[Watched]) -> None:
    with users(home, 2) as (one, two):
        assert one.pid == two.pid
        server = watch(one.pid)
        guardian = watch(server.parent())
        one.leave()
        assert server.alive()
        two.leave()
        server.wait()
        guardian.wait()
    assert not (home / "server.sock").exists()


def test_server_ends_when_all_its_users_are_killed(home: Path, watch: type[Watched]) -> None:
    with users(home, 3) as three:
        server = watch(three[0].pid)
        guardian = watch(server.parent())
        assert {user.pid for user in three} == {server.pid}
        for user in three:
            user.kill()
        server.wait()
        guardian.wait()


def test_server_ends_after_user_exits_without_close(home: Path, watch: type[Watched]) -> None:
    code = "import sys, pathlib; from lockwork.runtime.embedded import open_shared\n"
    code += "print(open_shared(pathlib.Path(sys.argv[1])).pid, flush=True); sys.stdin.read()"
    process = zygote.popen(
        [sys.executable, "-c", code, str(home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    server = watch(int(process.stdout.readline()))
    _, errors = process.communicate(timeout=LIMIT)
    assert (process.returncode, errors) == (0, b"")
    server.wait()


def test_concurrent_processes_get_one_server(home: Path) -> None:
    with users(home, 8) as eight:
        assert len({user.pid for user in eight}) == 1


def test_concurrent_threads_get_one_waiter(home: Path) -> None:
    found = []
    threads = [threading.Thread(target=lambda: found.append(open_shared(home))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({opened.pid for opened in found}) == 1
    assert places._members[home].handles == 8
    for opened in found:
        opened.close()


def test_data_survives_a_stop_and_a_start(home: Path, watch: type[Watched]) -> None:
    with open_shared(home) as first, client(first.url) as redis_client:
        redis_client.set("kept", "yes")
        server = watch(first.pid)
    server.wait()
    with open_shared(home) as second, client(second.url) as redis_client:
        assert second.pid != first.pid
        assert second.url == first.url
        assert redis_client.get("kept") == "yes"


def test_concurrent_close_and_open_never_find_a_stopping_server(home: Path) -> None:
    for number in range(5):
        with open_shared(home) as opened, client(opened.url) as redis_client:
            assert redis_client.incr("rounds") == number + 1


def test_next_user_waits_for_a_stopping_server(home: Path, watch: type[Watched]) -> None:
    with open_shared(home) as opened:
        server = watch(opened.pid)
        os.kill(server.pid, signal.SIGSTOP)  # the server then cannot end before the next user comes
    with (home / "users").open("r+") as file:
        # the guardian has the exclusive lock once this fails; a shared lock blocks it only briefly
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                break
            fcntl.flock(file, fcntl.LOCK_UN)
    with users(home, 1) as (user,):
        assert user.process.stdout is not None
        assert not select.select([user.process.stdout], [], [], 0.2)[0]
        os.kill(server.pid, signal.SIGCONT)
        assert user.pid != server.pid
        server.wait()


def test_close_twice_and_handles_that_are_counted(home: Path, watch: type[Watched]) -> None:
    one, two = open_shared(home), open_shared(home)
    server = watch(one.pid)
    one.close()
    one.close()
    with client(two.url) as redis_client:
        assert redis_client.ping()
    assert server.alive()
    two.close()
    server.wait()
