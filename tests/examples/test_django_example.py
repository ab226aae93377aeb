"""The Django example over HTTP, with a worker process that is killed while it runs a job."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import httpx
import pytest

from django_project import START
from lockwork import Lockwork
from ports import free_port
from processes import started, until

STORE = Path(__file__).parents[2] / "examples" / "django"


def test_store_charges_each_order_once_although_a_worker_dies(
    lw: Lockwork, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORE_DATABASE", str(tmp_path / "db.sqlite3"))
    manage, port = [sys.executable, "manage.py"], free_port()
    with started([*manage, "migrate", "-v0"], folder=STORE, url=url) as migration:
        assert migration.wait(START) == 0, migration.errors
    serve = [sys.executable, "-m", "uvicorn", "store.asgi:application", "--port", str(port)]
    with (
        started(serve, folder=STORE, url=url) as web,
        started([*manage, "lockwork", "worker", "--lease", "3"], folder=STORE, url=url) as worker,
        httpx.Client(base_url=f"http://127.0.0.1:{port}") as client,
    ):
        until(lambda: "running on" in web.errors, "the store is open", START)
        until(lambda: "works on default" in worker.errors, "the worker is ready", START)
        created = client.post("/orders", data={"email": "ada@example.com"})
        assert created.status_code == 202, created.text
        order, job = created.json()["order"], lw.job(created.json()["job"])
        until(lambda: job.state() == "running", "the job runs")
        (child,) = worker.children()
        os.kill(child, signal.SIGKILL)
        until(lambda: client.get(f"/orders/{order}").json()["state"] == "confirmed", "the order is charged", START)
        assert client.get(f"/orders/{order}").json() == {"state": "confirmed", "charges": 1}
        id = client.post(f"/orders/{order}/invoice").json()["invoice"]
        path = f"/invoices/{id}"
        until(lambda: client.get(path).json()["status"] == "SUCCESSFUL", "the task of Django is done", START)
        text = f"Invoice {order} for ada@example.com: 1 charge"
        assert client.get(path).json() == {"status": "SUCCESSFUL", "text": text, "attempts": 1}
        assert client.get(f"/invoices/{job.id}").status_code == 404
        assert client.get("/admin/lockwork/").headers["location"] == "/admin/login/?next=/admin/lockwork/"
        worker.send(signal.SIGTERM)
        assert worker.wait(START) == 0
