"""The Flask example over HTTP, with a worker process that is killed while it runs a job."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import httpx
import pytest
import redis

from lockwork import Lockwork
from ports import free_port
from processes import started, until

FOLDER = Path(__file__).parents[2] / "examples" / "flask"
START = 60.0


def test_invoice_is_sent_once_although_a_worker_dies(
    lw: Lockwork, admin: redis.Redis, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INVOICES_DATABASE", str(tmp_path / "invoices.sqlite3"))
    monkeypatch.setenv("INVOICES_PREFIX", lw.config.prefix)
    flask, port = [sys.executable, "-m", "flask", "--app", "invoices"], free_port()
    with (
        started([*flask, "run", "--port", str(port)], folder=FOLDER, url=url) as web,
        started([*flask, "lockwork", "worker", "--lease", "3"], folder=FOLDER, url=url) as worker,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=START) as client,
    ):
        until(lambda: "Running on" in web.errors, "the app is open", START)
        until(lambda: "works on default" in worker.errors, "the worker is ready", START)
        created = client.post("/invoices")
        assert created.status_code == 202, created.text
        number, job = created.json()["number"], lw.job(created.json()["job"])
        until(lambda: job.state() == "running", "the job runs")
        assert client.get(f"/invoices/{number}").json() == {"number": number, "sent": 0}
        (child,) = worker.children()
        os.kill(child, signal.SIGKILL)
        until(lambda: job.state() == "succeeded", "another process runs the job", START)
        assert client.get(f"/invoices/{number}").json() == {"number": number, "sent": 1}
        assert client.get("/invoices/7").status_code == 404
        (listed,) = lw.workers()
        assert listed.app == "invoices:lw"
        worker.send(signal.SIGTERM)
        assert worker.wait(START) == 0
