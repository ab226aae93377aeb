"""A worker that starts before its server waits, like a running worker."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from mortal_servers import MortalServer
from ports import free_port
from processes import until, worker
from service_managers import Manager

APP = """
from lockwork import Lockwork

lw = Lockwork(patience=1)

@lw.task
def ping() -> str:
    return "pong"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "patient_app.py").write_text(APP)
    return tmp_path


def test_worker_waits_for_its_server(folder: Path, ask: Any, manager: Manager) -> None:
    port = free_port()
    with MortalServer(folder / "server") as server:
        server.kill()
        with worker("patient_app:lw", "--health-port", str(port), url=server.url, folder=folder) as process:
            until(lambda: "waits for the server" in process.errors, "it says that it waits")
            until(lambda: any("EXTEND_TIMEOUT_USEC" in line for line in manager.heard()), "systemd is notified")
            assert ask(port, "/livez")[0] == 200
            assert ask(port, "/readyz")[0] == 503
            assert "READY=1" not in manager.heard()
            server.start()
            until(lambda: "READY=1" in manager.heard(), "it works")
            until(lambda: ask(port, "/readyz")[0] == 200, "it is ready")
            process.send(signal.SIGTERM)
            assert process.wait() == 0


def test_waiting_worker_ends_on_sigterm(folder: Path) -> None:
    with worker("patient_app:lw", url=f"redis://127.0.0.1:{free_port()}", folder=folder) as process:
        until(lambda: "waits for the server" in process.errors, "it says that it waits")
        process.send(signal.SIGTERM)
        assert process.wait() == 0


@pytest.mark.parametrize("option", ["--no-wait", "--burst", "--once"])
def test_worker_that_does_not_wait_ends_with_one_error(folder: Path, option: str) -> None:
    with worker("patient_app:lw", option, url=f"redis://127.0.0.1:{free_port()}", folder=folder) as process:
        assert process.wait() == 1
        assert process.errors.count("lockwork: gave up") == 1


def test_refusal_ends_the_worker_at_once(folder: Path, own_url: str) -> None:
    wrong = own_url.replace("unix://", "unix://nobody:wrong@")
    with worker("patient_app:lw", url=wrong, folder=folder) as process:
        assert process.wait() == 1
        assert "waits for the server" not in process.errors
