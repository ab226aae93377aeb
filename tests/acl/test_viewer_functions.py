"""A viewer reads by functions that an administrator has loaded, and runs no scripts."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import redis
from click.testing import CliRunner

from acl.test_commands_of_roles import VIEWER
from clients import client_of
from clusters import clustered, names_everywhere
from configured_servers import configured
from lockwork import Lockwork, ServerRefused
from lockwork.acl import rules
from lockwork.cli.commands import cli
from lockwork.cli.top_watcher import Watcher
from lockwork.errors import FunctionsMissing
from lockwork.protocol import functions
from lockwork.protocol.effects import script_call
from lockwork.protocol.functions import Library, library
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.scripts import script
from mortal_servers import MortalServer
from processes import until
from roles import as_role, load_functions
from sentinels import watched

OTHER = "lockwork_0123456789ab"
MISSING = "lacks the functions lockwork_[0-9a-f]{12}, by which this user reads: run `lockwork functions load`"


@pytest.fixture(autouse=True)
def loaded(admin: Any) -> None:
    """Skip on a server without functions."""
    if not load_functions(admin):
        pytest.skip("Redis 6.2 has no functions")


@pytest.fixture
def viewer(url: str, admin: Any) -> Iterator[str]:
    yield as_role(url, "viewer")
    admin.acl_deluser("viewer")


def calls(admin: Any, command: str) -> tuple[int, int]:
    """Return the number of calls and of refused calls of a command."""
    stats: Any = admin.info("commandstats").get(f"cmdstat_{command}", {})
    return stats.get("calls", 0), stats.get("rejected_calls", 0)


def run(*arguments: str, url: str, code: int = 0) -> str:
    """Return the output of a command, errors included."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCKWORK_URL", url)
        result = CliRunner().invoke(cli, arguments)
    error = "" if result.exception is None or isinstance(result.exception, SystemExit) else str(result.exception)
    assert bool(result.exit_code) == bool(code), result.output + error
    return result.output + error


def test_viewer_is_refused_one_script_and_then_calls_functions(viewer: str, admin: Any) -> None:
    admin.config_resetstat()
    with Lockwork(viewer) as app:
        for _ in range(5):
            assert app.queue("mail").status().ready == 0
            assert app.queues() == []
        assert calls(admin, "evalsha") == (0, 1)
        assert calls(admin, "fcall_ro")[0] == 10
        with pytest.raises(ServerRefused, match="does not let this user do that: NOPERM .*evalsha"):
            app.queue("mail").pause()
        assert app.queues() == [], "it still reads by functions"
    assert calls(admin, "fcall")[0] == calls(admin, "eval")[0] == 0


async def test_viewer_reads_by_functions_on_an_event_loop(viewer: str, admin: Any) -> None:
    admin.config_resetstat()
    async with Lockwork(viewer) as app:
        for _ in range(5):
            assert (await app.queue("mail").astatus()).ready == 0
            assert await app.aqueues() == []
        assert calls(admin, "evalsha") == (0, 1)
        with pytest.raises(ServerRefused, match="does not let this user do that: NOPERM .*evalsha"):
            await app.queue("mail").apause()


COMMANDS = (
    "status", "queue", "queue mail", "jobs", "jobs --arg 1 --ready", "job {id}", "dead", "dead groups", "flows",
    "flows {flow}", "schedules", "stocks", "stocks phones", "locks", "workers", "doctor", "metrics --print",
)  # fmt: skip


def test_reading_commands_work_without_scripts(viewer: str, lw: Lockwork) -> None:
    send = lw.task(name="send", queue="mail")(print)
    job = send.options(group="a").enqueue(1)
    flow = lw.chain(send.call(1), send.call(2)).enqueue()
    lw.stock("phones", 2, queue="mail").reserve("ada")
    with lw.lock("a"):
        for command in COMMANDS:
            words = command.format(id=job.id, flow=flow.id).split()
            message = run(*words, url=viewer, code=int(command == "doctor"))  # it finds that no worker runs
            assert "does not let" not in message, command
        with Lockwork(viewer) as app:
            locks = Watcher(app).read().locks
            assert locks is not None
            assert [lock.name for lock in locks.locks] == ["a"]
    lw.queue("mail").clear()


def test_other_users_run_scripts(url: str, lw: Lockwork, admin: Any) -> None:
    load_functions(admin)
    admin.config_resetstat()
    assert lw.queues() == []
    assert calls(admin, "fcall_ro") == (0, 0)
    assert calls(admin, "evalsha")[1] == 0


@pytest.mark.parametrize(
    "command", ["EVAL return 0", "EVALSHA a 0", "EVAL_RO return 0", "EVALSHA_RO a 0", "SCRIPT LOAD return", "FCALL a 0",
                "FUNCTION LIST", "FUNCTION LOAD a", "FUNCTION DELETE a", "FUNCTION FLUSH", "FUNCTION RESTORE a",
                "FUNCTION DUMP", "FUNCTION KILL"]
)  # fmt: skip
def test_viewer_runs_no_script_and_loads_no_function(viewer: str, command: str) -> None:
    with client_of(viewer) as client, pytest.raises(redis.exceptions.NoPermissionError):
        client.execute_command(*command.split())


def test_function_that_would_write_is_refused(viewer: str, lw: Lockwork, admin: Any) -> None:
    """The script of `result()` notes who waits: a viewer has no right to write, and the function itself has none."""
    job = lw.task(name="send")(print).enqueue()
    with Lockwork(viewer) as app, pytest.raises(ServerRefused, match="does not let this user do that"):
        app.job(job.id).result(5)
    call = script_call("queue/outcome", QueueKeys("lw", "default"), [job.id, "lw:wake:a"])
    with pytest.raises(redis.ResponseError, match="Write commands are not allowed from read-only scripts"):
        admin.execute_command("FCALL_RO", functions.function(call.script), len(call.keys), *call.keys, *call.args)
    assert not admin.exists(QueueKeys("lw", "default").watch)
    lw.queue().clear()


def test_library_of_another_version_is_not_called(url: str, admin: Any) -> None:
    """A rolling upgrade: each version calls its own functions, side by side."""
    load_other(admin)
    viewer = as_role(url, "viewer", loads=False)
    with contextlib.suppress(redis.ResponseError):
        admin.execute_command("FUNCTION", "DELETE", library().name)
    with Lockwork(viewer) as app, pytest.MonkeyPatch.context() as patch:
        with pytest.raises(FunctionsMissing, match=MISSING):
            app.queues()
        assert load_functions(admin)
        assert app.queues() == [], "without a restart"
        patch.setattr(functions, "library", lambda: Library(OTHER, ""))  # a process of the other version
        admin.config_resetstat()
        assert app.queues() == []
        assert calls(admin, "fcall_ro") == (1, 0)
    admin.execute_command("FUNCTION", "DELETE", OTHER)
    admin.acl_deluser("viewer")


def load_other(admin: Any) -> None:
    """Load the library of another version, with the same functions."""
    code = library().code.replace(library().name, OTHER)
    admin.execute_command("FUNCTION", "LOAD", "REPLACE", code)


def test_library_changes_its_name_with_any_script() -> None:
    assert library().name == f"lockwork_{sha256(_sources().encode()).hexdigest()[:12]}"
    assert library().code.count("redis.register_function") == len(VIEWER)
    assert all(script(name).source in library().code for name in VIEWER)


def _sources() -> str:
    return "".join(f"{name}\n{script(name).source}\n" for name in sorted(VIEWER))


def test_functions_survive_flushall_and_a_restart_but_no_lost_disk(tmp_path: Path) -> None:
    with MortalServer(tmp_path) as server:
        viewer = as_role(server.url, "viewer")
        with Lockwork(viewer) as app, client_of(server.url) as admin:
            assert app.queues() == []
            admin.flushall()
            assert app.queues() == []
            server.kill()
            server.start()
            as_role(server.url, "viewer", loads=False)
            assert app.queues() == []
            server.kill()
            server.start(empty=True)
            as_role(server.url, "viewer", loads=False)
            with pytest.raises(FunctionsMissing, match=MISSING):
                app.queues()
            for command in ("status", "queue", "jobs", "locks", "metrics --print"):
                message = run(*command.split(), url=viewer, code=1)
                assert re.search(MISSING, message), message
                assert message.count("\n") <= 1
            findings = json.loads(run("doctor", "--json", url=viewer, code=1))["findings"]
            assert [finding["level"] for finding in findings] == ["serious"]
            assert re.search(MISSING, findings[0]["text"])
            assert "lockwork functions" in findings[0]["fix"]
            assert library().name in run("functions", "load", url=server.url)
            assert app.queues() == []


def test_functions_are_loaded_on_each_primary_of_a_cluster(tmp_path: Path) -> None:
    with clustered(tmp_path) as cluster:
        viewer = as_role(cluster.url, "viewer", loads=False)
        names = names_everywhere(cluster)
        assert run("functions", "load", url=cluster.url).count(" is loaded at redis://127.0.0.1:") == 3
        with Lockwork(viewer) as app, Lockwork(cluster.url) as lw:
            grants = [lw.lock(name).acquire() for name in names]
            assert {lock.name for lock in app.locks().locks} == set(names)
            assert [app.lock(name).inspect().waiters for name in names] == [0, 0, 0]
            last = cluster.nodes[2]
            last.client.execute_command("FUNCTION", "FLUSH")
            shown = run("functions", url=cluster.url)
            assert "2 of 3" in shown
            assert f"missing at redis://127.0.0.1:{last.port}/0: lockwork functions load" in shown
            assert app.lock(names[0]).inspect().owner
            for read in (app.locks, app.lock(names[2]).inspect):
                with pytest.raises(FunctionsMissing, match=f"127.0.0.1:{last.port}/0 lacks the functions"):
                    read()
            run("functions", "load", url=cluster.url)
            assert {lock.name for lock in app.locks().locks} == set(names)
            for grant in grants:
                grant.release()
        assert run("functions", "delete", "--all", "--yes", url=cluster.url) == f"deleted {library().name}\n"
        assert "0 of 3" in run("functions", url=cluster.url)


async def test_viewer_reads_a_cluster_on_an_event_loop(tmp_path: Path) -> None:
    with clustered(tmp_path) as cluster:
        async with Lockwork(as_role(cluster.url, "viewer")) as app:
            assert not (await app.alocks()).locks
            for name in names_everywhere(cluster):
                assert (await app.lock(name).ainspect()).waiters == 0


def test_functions_are_on_the_new_primary_after_a_failover(tmp_path: Path) -> None:
    with watched(tmp_path) as servers:
        before = servers.primary()
        for node in servers.servers:
            node.client.execute_command("ACL", "SETUSER", "viewer", ">secret", *rules(["viewer"]))
        assert library().name in run("functions", "load", url=servers.url)
        with Lockwork(servers.url.replace("://", "://viewer:secret@")) as app:
            assert app.queues() == []
            before.client.wait(1, 5000)
            servers.sentinels[0].client.execute_command("SENTINEL", "FAILOVER", "shop")
            servers.elected(before)
            until(lambda: app.queues() == [], "it reads at the new primary")
        assert "1 of 1" in run("functions", url=servers.url)


def test_server_without_functions(tmp_path: Path) -> None:
    """Redis 6.2 lacks these commands; here the server's configuration hides them."""
    hidden = [word for name in ("FUNCTION", "FCALL", "FCALL_RO") for word in ("--rename-command", name, "")]
    with configured(tmp_path, *hidden) as server:
        with client_of(server.url) as admin:
            admin.execute_command("ACL", "SETUSER", "viewer", ">secret", *rules(["viewer"], by_eval=True))
            viewer = server.url.replace("://", "://viewer:secret@")
            with Lockwork(viewer) as app:
                assert app.queues() == []
            admin.execute_command("ACL", "SETUSER", "viewer", "-eval", "-evalsha")
            message = "has no functions .*set the rules that `lockwork acl viewer --eval` prints"
            with Lockwork(viewer) as app, pytest.raises(ServerRefused, match=message):
                app.queues()
        assert re.search("has no functions: they need Redis 7", run("functions", "load", url=server.url, code=1))


def test_rights_may_change_while_a_process_runs(viewer: str, admin: Any) -> None:
    with Lockwork(viewer) as app:
        assert app.queues() == []
        admin.execute_command("ACL", "SETUSER", "viewer", *rules(["viewer"], by_eval=True))
        with pytest.raises(ServerRefused, match=r"neither scripts \(EVALSHA\) nor functions \(FCALL_RO\), so set"):
            app.queues()
        assert app.queues() == []
        admin.execute_command("ACL", "SETUSER", "viewer", *rules(["viewer"]))
        assert app.queues() == []


def test_commands_for_libraries(url: str, admin: Any) -> None:
    load_other(admin)
    name = library().name
    assert run("functions", "load", url=url) == f"{name} is loaded at {url.partition('@')[2] or url}\n"
    found = json.loads(run("functions", "--json", url=url))
    assert found["library"] == name
    ((libraries,),) = [tuple(found["servers"].values())]
    assert libraries == {name: len(VIEWER), OTHER: len(VIEWER)}
    assert run("functions", "delete", "--yes", url=url) == f"deleted {OTHER}\n"
    assert run("functions", "delete", "--yes", url=url) == "no library to delete\n"
    assert re.search(rf"{name} +this +{len(VIEWER)} +1 of 1", run("functions", url=url))
    assert run("functions", "show", url=url) == library().code
    assert "did you mean lockwork functions load?" in run("functions", "laod", url=url, code=2)
    assert "it is an option of lockwork functions delete" in run("functions", "load", "--all", url=url, code=2)
    message = run("functions", "load", url=as_role(url, "operator"), code=1)
    assert re.search(r"does not let this user do that: .*function\|load", message)
    admin.acl_deluser("operator")
