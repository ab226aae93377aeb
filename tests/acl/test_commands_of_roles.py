"""The rules of each role: exactly the commands of its scripts, in a form that every server takes."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest
import redis
from click.testing import CliRunner

import lockwork.protocol
from lockwork import ConfigError
from lockwork.acl import ROLES, rules, user_name
from lockwork.cli.commands import cli
from lockwork.protocol.scripts import names, script
from roles import load_functions

CONNECTION = {"client|id", "client|kill", "info", "ping", "select", "subscribe"}
"""Commands of drivers and subscriptions, in addition to scripts."""
SCRIPTS = {"eval", "evalsha", "wait"}
LOCKS = ("formats/", "locks/", "permits/", "synchronizers/")
OPERATOR = {
    "announcements/order", "announcements/read", "dead/count_since", "dead/delete", "dead/get", "dead/page",
    "dead/retry", "index/scan", "locks/overview", "metrics/read", "queue/clear", "queue/peek",
    "queue/remaining", "queue/resume_task", "queue/set_rules", "queue/task_limits", "search/page", "search/places",
    "search/runs", "server/facts", "server/slow_log", "stock/counts",
}  # fmt: skip
WORKER = {
    "announcements/put", "dead/trim", "metrics/flush", "queue/cancel_requests", "queue/declare_limits", "queue/expire",
    "queue/forward_wakeup", "queue/heads", "queue/heartbeat", "queue/note", "queue/recover", "queue/reserve",
    "queue/settle", "queue/take_end", "queue/unknown_jobs", "schedules/declare", "schedules/due", "schedules/fire",
}  # fmt: skip
VIEWER = {
    "announcements/read", "dead/count_since", "dead/get", "dead/page", "delay_queue/count",
    "delay_queue/peek", "flows/find", "flows/graph", "flows/results", "flows/state", "formats/plain_state",
    "formats/timestamp_state", "index/exist", "index/read", "locks/overview", "locks/read_counts",
    "locks/register_get", "locks/state", "metrics/read", "permits/state", "queue/count_running",
    "queue/group_ages", "queue/heads", "queue/inspect", "queue/locate", "queue/outcome", "queue/parked",
    "queue/peek", "queue/rules", "queue/status", "queue/task_limits", "schedules/list", "schedules/list_created",
    "search/page", "search/places", "search/runs", "server/facts", "stock/counts", "stock/list", "stock/reservation",
    "synchronizers/barrier_state", "synchronizers/latch_state", "synchronizers/limiter_state",
    "synchronizers/once_state",
}  # fmt: skip
"""Scripts that read; some include parts whose writes are for others."""
WRITES = {"hdel", "hincrby", "hset", "hsetnx", "pexpire", "publish", "pubsub|numsub", "set", "unlink", "zadd", "zrem"}
_COMMAND = re.compile(r"(?:redis\.p?call|ask)\('([A-Z]+)'(?:, '(NUMSUB|GET)')?")
_VARIABLE = re.compile(r"redis\.p?call\(([^'].*?)[,)]")
LUA = Path(lockwork.protocol.__file__).parent


def commands(name: str) -> set[str]:
    """Return the commands that a script, with its parts, may run."""
    return {"|".join(filter(None, words)).lower() for words in _COMMAND.findall(script(name).source)}


def of_role(role: str) -> set[str]:
    """The scripts that a role runs; a queue has locks, too."""
    scripts = set(names())
    locks = {name for name in scripts - OPERATOR - {"locks/release_and_push"} if name.startswith(LOCKS)}
    queue_locks = {name for name in locks if name.startswith("locks/")}
    producer = scripts - OPERATOR - WORKER - locks | queue_locks
    return {"locks": locks, "producer": producer, "worker": producer | WORKER, "operator": scripts}[role]


@pytest.mark.parametrize("role", ROLES)
def test_role_has_the_commands_of_its_scripts_and_no_others(role: str) -> None:
    if role == "viewer":
        needed = set[str]().union(*map(commands, VIEWER)) - WRITES
        assert set(ROLES[role].commands) == needed | CONNECTION | {"fcall_ro"}
        return
    needed = set[str]().union(*map(commands, of_role(role)))
    assert set(ROLES[role].commands) == needed | CONNECTION | SCRIPTS


def test_viewer_calls_the_scripts_that_are_flagged() -> None:
    """A script that a viewer needs has `-- Flags: no-writes` in its header, and no other script has."""
    assert {name for name in names() if script(name).declared.no_writes} == VIEWER


def test_viewer_without_functions_runs_scripts() -> None:
    """On Redis 6.2, and beside a role that runs scripts anyway, the rules do not name FCALL_RO."""
    by_eval = set(rules(["viewer"], by_eval=True))
    assert by_eval == set(rules(["viewer"])) - {"+fcall_ro"} | {"+eval", "+evalsha"}
    assert "+fcall_ro" not in rules(["viewer", "locks"])


def test_command_names_in_scripts_are_literal() -> None:
    """A command in a variable is visible only where the name is passed to a function."""
    variables = {(file.name, name) for file in LUA.rglob("*.lua") for name in _VARIABLE.findall(file.read_text())}
    assert variables == {("stored.lua", "command")}


@pytest.mark.parametrize("role", ROLES)
def test_rules_are_in_the_form_that_redis_6_2_takes(role: str) -> None:
    for rule in rules([role]):
        assert not rule.startswith(("%", "("))
        assert not re.fullmatch(r"-.+\|.+", rule)


@pytest.mark.parametrize("role", ROLES)
def test_command_line_loads_on_a_server(admin: redis.Redis, url: str, role: str) -> None:
    """The prefix is literal, even with pattern characters; the user has no password until one is set."""
    by_eval = ["--eval"] * (role == "viewer" and not load_functions(admin))
    acl_command = CliRunner().invoke(cli, ["acl", role, "--prefix", "a*[b", "--user", "u", *by_eval]).stdout
    assert acl_command.startswith("ACL SETUSER u on ")
    set_rules = partial(admin.execute_command, *acl_command.split())
    kind = "lock" if role == "locks" else "q"
    try:
        set_rules()
        with redis.Redis.from_url(url.replace("://", "://u:secret@", 1)) as client:
            with pytest.raises(redis.AuthenticationError):
                client.exists(f"a*[b:{{{kind}:x}}")
            admin.acl_setuser("u", enabled=True, passwords=["+secret"])
            assert not client.exists(f"a*[b:{{{kind}:x}}")
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.exists(f"a123[b:{{{kind}:x}}")
        set_rules()
        assert admin.acl_getuser("u")["passwords"]  # type: ignore[index]
    finally:
        admin.acl_deluser("u")


@pytest.mark.parametrize("role", ROLES)
def test_page_shows_the_rules(role: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    assert f"$ lockwork acl {role}\n{CliRunner().invoke(cli, ['acl', role]).stdout}" in page


def test_line_of_an_acl_file() -> None:
    acl_command = CliRunner().invoke(cli, ["acl", "producer", "locks", "--aclfile"]).output
    assert acl_command == " ".join(["user", "producer-locks", *rules(["producer", "locks"])]) + "\n"


@pytest.mark.parametrize(
    "arguments", [[], ["nobody"], ["locks", "--prefix", "a b"], ["locks", "--prefix", 'a"b'], ["locks", "--prefix", ""],
                  ["locks", "--user", "default"], ["locks", "--user", "a\nb"], ["locks", "--user", "it's"]]
)  # fmt: skip
def test_bad_input_prints_no_rules(arguments: list[str]) -> None:
    result = CliRunner().invoke(cli, ["acl", *arguments])
    assert result.exit_code
    assert "ACL SETUSER" not in result.stdout


def test_bad_names_are_errors() -> None:
    with pytest.raises(ConfigError, match="producer, worker, locks, operator, viewer, not cook"):
        rules(["cook"])
    with pytest.raises(ConfigError, match="not none"):
        rules([])
    with pytest.raises(ConfigError, match="default"):
        user_name("default")
