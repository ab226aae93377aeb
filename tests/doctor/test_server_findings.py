"""Findings on badly configured servers; each test starts a real one."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis
from click.testing import CliRunner

from clusters import clustered
from configured_servers import Configured, configured
from doctor.examined import examine
from fake_server import VERSION, old_server
from hanging import black_hole
from lockwork.cli.commands import cli
from lockwork.doctor.finding import Finding
from ports import free_port
from processes import until
from proxy import proxied
from roles import as_role
from server_steps import stepping

APPEND = "Set `appendonly yes`."
DISK = "See the server's log: the disk may be full, or not writable."
MEMORY = "Raise maxmemory, or keep less: lower `result_ttl`, `dead_limit` or `history`."


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Configured]]:
    """Starts a server with these options, in the test's folder."""
    with ExitStack() as stack:
        yield lambda *options: stack.enter_context(configured(tmp_path, *options))


def server(level: str, text: str, fix: str) -> Finding:
    return Finding(level, "server", text, fix)  # type: ignore[arg-type]


def test_nothing_is_wrong_with_a_server_that_is_set_up_well(start: Callable[..., Configured]) -> None:
    found = examine(start().url)
    assert (found.findings, found.status) == ([], 0)
    checked = r"nothing is wrong\nchecked: (Valkey|Redis) [\d.]+, <?\d+\.\d ms a call; 0 queues, 0 workers, 0 apps\n"
    assert re.fullmatch(checked, found.text)


def test_server_that_saves_nothing_or_only_snapshots_is_a_warning(start: Callable[..., Configured]) -> None:
    url = start("--appendonly", "no").url
    text = "It has saved nothing since its start: a crash loses all jobs since then."
    assert examine(url).findings == [server("warning", text, APPEND)]
    with redis.Redis.from_url(url) as admin:
        admin.bgsave()
        until(lambda: admin.info("persistence")["rdb_last_bgsave_time_sec"] >= 0, "the snapshot is saved")
    found = examine(url)
    text = "It keeps snapshots only: a crash loses the jobs since the last one."
    assert (found.findings, found.status) == ([server("warning", text, APPEND)], 0)


def test_server_that_evicts_is_serious(start: Callable[..., Configured]) -> None:
    url = start("--maxmemory-policy", "allkeys-lru").url
    found = examine(url)
    text = "It may evict jobs and locks (maxmemory-policy allkeys-lru)."
    assert found.findings == [server("serious", text, "Set `maxmemory-policy noeviction`.")]
    assert found.status == 1
    shown = CliRunner().invoke(cli, ["status", "--url", url])  # its apps may have accepted that
    assert shown.exit_code == 0
    refused = CliRunner().invoke(cli, ["run", "--url", url, "--lock", "x", "--", "true"])
    assert refused.exit_code == 125
    assert "set it to noeviction" in refused.stderr


@pytest.mark.parametrize(("percent", "level"), [(87, "warning"), (97, "serious"), (100, "serious")])
def test_memory_that_is_nearly_or_wholly_full_is_found(
    start: Callable[..., Configured], percent: int, level: str
) -> None:
    most = 20_000_000
    url = start("--maxmemory", str(most)).url
    with redis.Redis.from_url(url) as admin:
        fill(admin, most * percent // 100)
    (found,) = examine(url).findings
    assert (found.level, found.fix) == (level, MEMORY)
    said = re.fullmatch(r"It uses (\d+)% of its maxmemory, and refuses writes when that is full.", found.text)
    assert said is not None
    assert percent <= int(said[1]) <= percent + 5


def fill(admin: redis.Redis, size: int) -> None:
    """Fill the server's memory up to this size, in bytes, or until it refuses more."""
    number, step = 0, 50_000
    while (memory := admin.info("memory"))["used_memory"] - memory["mem_not_counted_for_evict"] < size:
        number += 1
        try:
            admin.set(f"filler:{number}", b"x" * step)
        except redis.exceptions.OutOfMemoryError:
            return


@pytest.mark.parametrize(
    ("command", "field", "what"),
    [
        ("BGSAVE", "rdb_last_bgsave_status", "snapshot"),
        ("BGREWRITEAOF", "aof_last_bgrewrite_status", "rewrite of its log"),
        ("SET a b", "aof_last_write_status", "write to its log"),
    ],
)
def test_full_disk_is_serious(start: Callable[..., Configured], command: str, field: str, what: str) -> None:
    made = start()
    with redis.Redis.from_url(made.url) as admin:
        made.fill_disk()
        with contextlib.suppress(redis.exceptions.ResponseError):  # some servers say at once that they cannot rewrite
            admin.execute_command(*command.split())
        until(lambda: admin.info("persistence")[field] != "ok", "it has failed")
    found = examine(made.url)
    assert server("serious", f"Its last {what} failed.", DISK) in found.findings
    assert found.status == 1


def test_slow_link_is_a_warning(start: Callable[..., Configured]) -> None:
    url = start().url
    with proxied(url.removeprefix("redis://")) as link:
        link.slow_down(100_000)  # bytes a second: INFO alone takes some 60 ms
        (found,) = examine(link.url).findings
    assert found.level == "warning"
    assert found.text.startswith("The fastest of 5 calls took ")
    assert found.fix == "Run the workers in the server's data center, or reduce the load of the server."


def test_clocks_that_differ_and_slow_scripts_of_the_last_hour_are_warnings(start: Callable[..., Configured]) -> None:
    url = start().url
    with redis.Redis.from_url(url) as admin, stepping(admin) as clock:
        admin.eval(SLOW, 0)
        (found,) = examine(url).findings
        assert found.level == "warning"
        assert found.text.startswith("1 script took more than 100 ms in the last hour, the slowest ")
        assert found.fix.startswith("See `SLOWLOG GET`")
        clock.step(3601)
        (found,) = examine(url).findings
        assert (found.level, found.text) == ("warning", "Its clock and this machine's differ by 1 h.")
        assert found.fix == "Set both clocks by NTP: `at=` and the age of jobs use the client's clock."


SLOW = "local began = os.clock() while os.clock() - began < 0.11 do end"
"""Takes 110 ms of processor time."""


def test_users_who_may_not_read_all_of_it_are_told(start: Callable[..., Configured]) -> None:
    url = start().url
    text = "This user may not read the slow log, so slow scripts were not checked."
    found = examine(as_role(url, "viewer"))
    assert (found.findings, found.status) == ([server("info", text, "Use a user with the role `operator`.")], 0)
    assert examine(as_role(url, "operator")).findings == []
    with redis.Redis.from_url(url) as admin:
        admin.execute_command("ACL", "SETUSER", "viewer", "-info")
    (only,) = examine(as_role_again(url, "viewer")).findings
    assert only.text.startswith("This user may not read the server's settings (INFO: ")
    assert (only.level, only.fix) == ("info", "Use a user with the role `operator` or `viewer`.")


def as_role_again(url: str, name: str) -> str:
    """Return the URL for a user of `as_role`, with its current rights."""
    return url.replace("://", f"://{name}:secret@", 1)


def test_user_without_rights_or_with_a_wrong_password_is_serious(start: Callable[..., Configured]) -> None:
    url = start().url
    found = examine(as_role(url, "producer"))
    assert "does not let this user do that" in found.text
    assert [each.fix for each in found.findings] == [RIGHTS]
    (wrong,) = examine(as_role(url, "operator").replace("secret", "wrong")).findings
    assert (wrong.level, wrong.fix) == ("serious", RIGHTS)
    assert "secret" not in wrong.text


RIGHTS = "Use a user with the role `operator` or `viewer`, and its password: see `lockwork acl`."


def test_server_that_is_away_or_silent_is_serious() -> None:
    with black_hole() as silent:
        for port in (free_port(), silent):
            found = examine(f"redis://127.0.0.1:{port}")
            (only,) = found.findings
            assert (only.level, only.subject, found.status) == ("serious", "server", 1)
            assert f"redis://127.0.0.1:{port}" in only.text
            assert only.fix == "Start it, or pass another server in --url or LOCKWORK_URL."


def test_server_that_is_too_old_or_a_replica_is_serious(start: Callable[..., Configured]) -> None:
    with old_server() as (url, _):
        (found,) = examine(url).findings
        assert f"is version {VERSION}: use Redis 6.2 or later, or Valkey" in found.text
    with socket.create_server(("127.0.0.1", 0)) as primary:
        replica = start("--replicaof", f"127.0.0.1 {primary.getsockname()[1]}").url
        (found,) = examine(replica).findings
        assert "replica" in found.text
        assert found.fix == "Pass another server in --url or LOCKWORK_URL."


def test_doctor_checks_each_primary_of_a_cluster(tmp_path: Path) -> None:
    with clustered(tmp_path) as cluster:
        full = cluster.primaries()[1]
        used = int(full.client.info("memory")["used_memory"])
        full.client.config_set("maxmemory", int(used / 0.9))
        examined = examine(cluster.url)
    (memory,) = (finding for finding in examined.findings if finding.fix == MEMORY)
    assert memory.subject.startswith("server ")
    assert memory.subject.endswith(f" of 3, port {full.port}")
    assert len(examined.about("server 1 of 3")) == 1, "that it saves nothing"
