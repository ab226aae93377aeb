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
from lockwork.protocol.scripts import script

CONNECTION = {"client|id", "client|kill", "eval", "evalsha", "info", "ping", "select", "subscribe", "wait"}
"""What drivers and subscriptions send beside scripts."""
LOCKS = ("barrier_", "latch_", "limiter_", "lock_", "multi_", "once_", "permits_", "plain_", "register_", "timestamp_")
OPERATOR = {"announcement_order", "announcements_read", "dead_delete", "dead_get", "dead_page", "dead_retry",
            "dead_since", "jobs_clear", "jobs_peek", "jobs_places", "jobs_search", "queue_drain", "queue_set",
            "locks_overview", "metrics_read", "queues_find", "server_facts", "slow_log", "stock_counts"}  # fmt: skip
WORKER = {"announcement_put", "dead_trim", "jobs_asked", "jobs_beat", "jobs_expire", "jobs_heads", "jobs_note",
          "jobs_pass", "jobs_recover", "jobs_reserve", "jobs_settle", "jobs_strays", "metrics_flush",
          "schedule_declare", "schedule_fire"}  # fmt: skip
VIEWER = {"announcements_read", "barrier_state", "dead_get", "dead_page", "dead_since", "dq_count", "dq_peek",
          "flow_graph", "flow_look", "flow_results", "flows_find", "jobs_heads", "jobs_look", "jobs_outcome",
          "jobs_peek", "jobs_places", "jobs_search", "jobs_status", "jobs_where", "latch_state", "limiter_state",
          "lock_state", "locks_overview", "metrics_read", "once_state", "permits_state", "plain_state", "queues_find",
          "register_get", "schedule_list", "server_facts", "stock_counts", "stock_list"}  # fmt: skip
"""Scripts that read; some include parts whose writes are for others."""
WRITES = {"hdel", "hincrby", "hset", "hsetnx", "pexpire", "publish", "pubsub|numsub", "unlink", "zadd", "zrem"}
_COMMAND = re.compile(r"(?:redis\.p?call|ask)\('([A-Z]+)'(?:, '(NUMSUB|GET)')?")
_VARIABLE = re.compile(r"redis\.p?call\(([^'].*?)[,)]")
LUA = Path(lockwork.protocol.__file__).parent / "lua"


def scripts() -> set[str]:
    """The names of all of them."""
    return {file.stem for file in LUA.glob("*.lua")}


def commands(name: str) -> set[str]:
    """What a script, with its parts, may run."""
    return {"|".join(filter(None, found)).lower() for found in _COMMAND.findall(script(name).source)}


def of_role(role: str) -> set[str]:
    """The scripts that a role runs; a queue has locks, too."""
    locks = {name for name in scripts() - {"lock_release_push"} if name.startswith(LOCKS)}
    queue_locks = {name for name in locks if name.startswith("lock_")}
    producer = scripts() - OPERATOR - WORKER - locks | queue_locks
    return {"locks": locks, "producer": producer, "worker": producer | WORKER, "operator": scripts()}[role]


@pytest.mark.parametrize("role", ROLES)
def test_role_has_the_commands_of_its_scripts_and_no_others(role: str) -> None:
    if role == "viewer":
        needed = set[str]().union(*map(commands, VIEWER)) - WRITES
        assert set(ROLES[role].commands) == needed | CONNECTION - {"wait"}
        return
    needed = set[str]().union(*map(commands, of_role(role)))
    assert set(ROLES[role].commands) == needed | CONNECTION


def test_every_command_of_a_script_is_seen() -> None:
    """A command in a variable is seen only where the name is given to a function."""
    found = {(file.name, found) for file in LUA.rglob("*.lua") for found in _VARIABLE.findall(file.read_text())}
    assert found == {("stored.lua", "command")}


@pytest.mark.parametrize("role", ROLES)
def test_rules_are_in_the_form_that_redis_6_2_takes(role: str) -> None:
    for rule in rules([role]):
        assert not rule.startswith(("%", "("))
        assert not re.fullmatch(r"-.+\|.+", rule)


@pytest.mark.parametrize("role", ROLES)
def test_command_line_loads_on_a_server(admin: redis.Redis, url: str, role: str) -> None:
    """The prefix is taken as it is, whatever its signs mean in a pattern; there is no password until one is set."""
    printed = CliRunner().invoke(cli, ["acl", role, "--prefix", "a*[b", "--user", "u"]).output
    assert printed.startswith("ACL SETUSER u on ")
    set_rules = partial(admin.execute_command, *printed.split())
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
    assert f"$ lockwork acl {role}\n{CliRunner().invoke(cli, ['acl', role]).output}" in page


def test_line_of_an_acl_file() -> None:
    printed = CliRunner().invoke(cli, ["acl", "producer", "locks", "--aclfile"]).output
    assert printed == " ".join(["user", "producer-locks", *rules(["producer", "locks"])]) + "\n"


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
