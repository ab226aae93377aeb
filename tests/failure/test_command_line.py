"""`lockwork worker` with bad input: one line that says what to do, a failing exit status, and no traceback."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import redis

from fake_server import old_server
from indexed import keys_but_indexes
from lockwork import Lockwork
from lockwork.runtime.embedded import Embedded
from ports import free_port
from processes import Started, children, until, worker

SECRET = "s3cr3t"
MODULES = {
    "good": "from lockwork import Lockwork\nlw = Lockwork()\nnot_an_app = {'lw': 5}",
    "raises": "raise RuntimeError('the database of the app is away')",
    "lacks": "import a_module_that_is_not_installed",
    "taskless": "from lockwork import Lockwork\nlw = Lockwork()",
}


def refusal(process: Started, status: int = 1) -> str:
    """Wait until the process exits; return its last line."""
    assert process.wait() == status, process.errors
    text = process.errors
    assert "Traceback" not in text, text
    assert SECRET not in text
    assert not children(process.pid)
    return text.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("app", "parts"),
    [
        ("good:", ["module:object"]),
        (":lw", ["module:object"]),
        ("nowhere:lw", ["there is no module 'nowhere'", "on the Python path"]),
        ("nowhere.tasks:lw", ["there is no module 'nowhere.tasks'"]),
        ("good:wl", ["module 'good' has no 'wl'", "the module has good:lw"]),
        ("good:not_an_app", ["good:not_an_app is a dict, not a Lockwork object"]),
        ("raises:lw", ["'raises' cannot be imported", "RuntimeError: the database of the app is away", "line 1"]),
        ("lacks:lw", ["module 'lacks' cannot be imported", "No module named 'a_module_that_is_not_installed'"]),
        ("taskless:lw", ["has no tasks", "pass --queue"]),
    ],
)
def test_missing_app_is_one_clear_error(url: str, tmp_path: Path, app: str, parts: list[str]) -> None:
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
    with worker(app, url=url, folder=tmp_path) as process:
        line = refusal(process)
    assert line.startswith("lockwork: ")
    for part in parts:
        assert part in line


def test_refused_declaration_names_its_line_in_the_app(url: str, tmp_path: Path) -> None:
    (tmp_path / "twice.py").write_text(
        "from lockwork import Lockwork\n"
        "lw = Lockwork()\n"
        "for region in ('eu', 'us'):\n"
        "    @lw.task(queue=region)\n"
        "    def sync(): ...\n"
    )
    with worker("twice:lw", url=url, folder=tmp_path) as process:
        line = refusal(process)
    assert "task 'sync' is registered for queue 'eu' and for queue 'us'" in line
    assert line.endswith("twice.py, line 4)")


def test_syntax_error_in_the_app_is_one_clear_error(url: str, tmp_path: Path) -> None:
    (tmp_path / "garbled.py").write_text("def broken(:\n")
    with worker("garbled:lw", url=url, folder=tmp_path) as process:
        refusal(process)
        line, *details = process.errors.splitlines()
    assert line.startswith("lockwork: module 'garbled' cannot be imported: SyntaxError: ")
    assert line.endswith(f"({tmp_path}/garbled.py, line 1)")
    assert "    def broken(:" in details


def test_library_error_names_the_line_in_the_app_that_caused_it(url: str, tmp_path: Path) -> None:
    (tmp_path / "settings.py").write_text("import json\n\nLIMITS = json.loads('{')\n")
    (tmp_path / "shop.py").write_text("from lockwork import Lockwork\nfrom settings import LIMITS\nlw = Lockwork()\n")
    with worker("shop:lw", url=url, folder=tmp_path) as process:
        assert process.wait() == 1
        summary, *trace = process.errors.splitlines()
    assert summary.startswith("lockwork: module 'shop' cannot be imported: JSONDecodeError: ")
    assert summary.endswith(f"({tmp_path}/settings.py, line 3)")
    places = [line for line in trace if line.startswith("  File ")]
    assert f'  File "{tmp_path}/shop.py", line 2, in <module>' == places[0], "how the worker came there is left out"
    assert f'  File "{tmp_path}/settings.py", line 3, in <module>' == places[1]
    assert "/json/decoder.py" in places[-1]
    assert trace[-1].startswith("json.decoder.JSONDecodeError: ")


def test_password_in_a_line_of_the_app_is_not_shown(url: str, tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(f"from lockwork import Lockwork\nlw = Lockwork('radis://:{SECRET}@host')\n")
    (tmp_path / "shop.py").write_text("from server import lw\n")
    with worker("shop:lw", url=url, folder=tmp_path) as process:
        assert refusal(process).endswith(f"({tmp_path}/server.py, line 2)")


def test_module_that_exits_is_one_clear_error(url: str, tmp_path: Path) -> None:
    (tmp_path / "leaver.py").write_text("import sys\nsys.exit(0)\n")
    with worker("leaver:lw", url=url, folder=tmp_path) as process:
        line = refusal(process)
    assert "module 'leaver' cannot be imported: SystemExit" in line


@pytest.mark.parametrize(
    ("options", "status", "parts"),
    [
        (["--lease", "0"], 1, ["--lease must be more than 0"]),
        (["--lease", "-1"], 1, ["--lease must be between 0"]),
        (["--lease", "200ms"], 1, ["--lease must be at least 1 s"]),
        (["--lease", "soon"], 1, ["--lease must be seconds", '"10m"']),
        (["--grace", "-5"], 1, ["--grace must be between 0"]),
        (["--queue", "a{b}"], 1, ["a queue's name must be 1 to 200 characters"]),
        (["--queue", "a/b"], 1, ["must not contain a slash"]),
        (["--queue", ""], 1, ["--queues contains an empty name"]),
        (["--processes", "0"], 2, ["--processes", "1<=x<=1000"]),
        (["--concurrency", "many"], 2, ["--concurrency", "'many' is not a valid integer"]),
        (["--health-port", "0"], 2, ["--health-port"]),
        (["--colour", "blue"], 2, ["No such option", "--colour"]),
        (["--concurency", "5"], 2, ["No such option", "Did you mean", "--concurrency"]),
    ],
)
def test_options_that_cannot_be(url: str, apps: Path, options: list[str], status: int, parts: list[str]) -> None:
    with worker("good:lw", *options, url=url, folder=apps) as process:
        refusal(process, status)
        for part in parts:
            assert part in process.errors


def test_missing_server_is_one_clear_error(apps: Path) -> None:
    port = free_port()
    url = f"redis://user:{SECRET}@127.0.0.1:{port}/0"
    with worker("good:lw", "--lease", "1s", "--no-wait", url=url, folder=apps) as process:
        line = refusal(process)
    assert f"no server answers at redis://127.0.0.1:{port}/0: Connection refused. Is it running and reachable?" in line


def test_malformed_url_is_refused(apps: Path) -> None:
    with worker("good:lw", url=f"http://:{SECRET}@db", folder=apps) as process:
        line = refusal(process)
    assert "a server's URL begins with redis://" in line


def test_wrong_password_is_one_clear_error(spoiled: Embedded, spoil: redis.Redis, apps: Path) -> None:
    spoil.config_set("requirepass", "another")
    url = f"unix://:{SECRET}@{spoiled.url.removeprefix('unix://')}"
    with worker("good:lw", url=url, folder=apps) as process:
        assert "refuses our user or password" in refusal(process)
    assert keys_but_indexes(spoil) == []


def test_too_old_server_is_refused(apps: Path) -> None:
    with old_server() as (url, _), worker("good:lw", url=url, folder=apps) as process:
        assert "use Redis 6.2 or later, or Valkey" in refusal(process)


def test_read_only_replica_is_refused(spoiled: Embedded, spoil: redis.Redis, apps: Path) -> None:
    spoil.replicaof("127.0.0.1", "1")
    with worker("good:lw", url=spoiled.url, folder=apps) as process:
        assert "is a read-only replica: connect to its primary" in refusal(process)


def test_server_that_evicts_is_refused(spoiled: Embedded, spoil: redis.Redis, apps: Path) -> None:
    spoil.config_set("maxmemory-policy", "allkeys-random")
    with worker("good:lw", url=spoiled.url, folder=apps) as process:
        assert "set it to noeviction" in refusal(process)
    assert keys_but_indexes(spoil) == []


def test_busy_health_port_is_one_clear_error(url: str, apps: Path, lw: Lockwork) -> None:
    port = free_port()
    with worker("good:lw", "--health-port", str(port), url=url, folder=apps) as first:
        until(lambda: lw.queue().workers(), "it works")
        with worker("good:lw", "--health-port", str(port), url=url, folder=apps) as second:
            line = refusal(second)
        assert f"the health port 127.0.0.1:{port} cannot be used" in line
        assert "does another worker run here? Choose another --health-port" in line
        assert len(lw.queue().workers()) == 1
        assert first.process.poll() is None


def test_unusable_health_host_is_one_clear_error(url: str, apps: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)):
        options = ("--health-port", str(free_port()), "--health-host", "no.such.host.invalid")
        with worker("good:lw", *options, url=url, folder=apps) as process:
            assert "the health port no.such.host.invalid" in refusal(process)
