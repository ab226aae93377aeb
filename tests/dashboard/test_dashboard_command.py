"""`lockwork dashboard`: whom it serves, and when it refuses to start."""

from __future__ import annotations

import re
import stat
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from lockwork.cli.dashboard import dashboard
from lockwork.dashboard import addresses
from lockwork.dashboard import users as users_file
from lockwork.errors import ConfigError
from ports import free_port
from processes import started, until

TOKEN = "0123456789abcdef"


def get(port: int, path: str = "/queues", **headers: str) -> int:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def command(*arguments: str) -> list[str]:
    import sys

    return [sys.executable, "-m", "lockwork", "dashboard", *arguments]


def test_dashboard_serves_this_machine_and_ends_by_a_signal(url: str, tmp_path: Path) -> None:
    port = free_port()
    with started(command("--port", str(port)), folder=tmp_path, url=url) as process:
        assert until(lambda: get(port), "it serves") == 200
        assert get(port, Host="evil.example") == 421
        process.process.terminate()
        process.process.wait(10)


def test_proxy_may_strip_or_keep_the_prefix(url: str, tmp_path: Path) -> None:
    port = free_port()
    with started(command("--port", str(port), "--root-path", "lockwork/"), folder=tmp_path, url=url):
        assert until(lambda: get(port), "it serves") == 200
        for path in ("/queues", "/lockwork/queues"):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                links = re.findall(r'(?:href|src|action)="(/[^"]*)"', answer.read().decode())
            assert links
            assert all(link.startswith("/lockwork/") and "/lockwork/lockwork" not in link for link in links), links
            assert get(port, links[0].replace("&amp;", "&")) == 200


def test_dashboard_is_local_and_read_only_by_default() -> None:
    options = dashboard.make_context("dashboard", []).params
    assert addresses.is_loopback(options["host"])
    assert options["allow_actions"] is False
    assert not any(addresses.is_loopback(host) for host in ("0.0.0.0", "::", "192.0.2.1", "localhost.evil.example", ""))


def test_dashboard_requires_its_token(url: str, tmp_path: Path) -> None:
    port = free_port()
    with started(command("--host", "0.0.0.0", "--port", str(port), "--token", TOKEN), folder=tmp_path, url=url):
        assert until(lambda: get(port), "it serves") == 401
        assert get(port, Authorization=f"Bearer {TOKEN}") == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "board.example"])
def test_dashboard_refuses_other_machines_without_a_login(host: str) -> None:
    with pytest.raises(ConfigError, match="--token-file FILE or --users FILE"):
        CliRunner().invoke(dashboard, ["--host", host], catch_exceptions=False)


def test_busy_port_is_one_clear_error(url: str) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with pytest.raises(ConfigError, match="choose another --port"):
            CliRunner().invoke(dashboard, ["--port", port, "--url", url], catch_exceptions=False)


def test_added_users_have_hashed_passwords(tmp_path: Path) -> None:
    file = tmp_path / "users"
    for name, view in (("ada", []), ("bob", ["--view"]), ("ada", [])):
        answer = CliRunner().invoke(
            dashboard, ["--add-user", name, "--users", str(file), *view], input=f"secret of {name}\n" * 2
        )
        assert f"{name} is in" in answer.output
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "secret" not in file.read_text()
    users = users_file.read_users(file)
    assert list(users) == ["ada", "bob"]
    assert users_file.password_matches("secret of bob", users["bob"])
    assert users["bob"].endswith(":view")


def test_dashboard_shows_queues_of_discovered_tasks(url: str, tmp_path: Path) -> None:
    (tmp_path / "shelf" / "orders").mkdir(parents=True)
    app = f"from lockwork import Lockwork\nlw = Lockwork({url!r}, prefix='{tmp_path.name}')\n"
    (tmp_path / "shelf" / "app.py").write_text(app)
    task = "from shelf.app import lw\n@lw.task(queue='parcels')\ndef send() -> None: ...\n"
    (tmp_path / "shelf" / "orders" / "tasks.py").write_text(task)
    port = free_port()
    words = ["shelf.app", "--discover", "shelf", "--port", str(port)]
    with started(command(*words), folder=tmp_path, url=url):
        assert until(lambda: get(port), "it serves") == 200
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/queues", timeout=10) as answer:
            assert "parcels" in answer.read().decode()


def test_discover_without_an_app_is_refused() -> None:
    result = CliRunner().invoke(dashboard, ["--discover", "shelf"])
    assert result.exit_code == 2
    assert "--discover needs the app" in result.output
