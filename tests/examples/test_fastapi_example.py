"""The FastAPI example over HTTP, with a worker process that is killed while it runs a job."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import httpx
import redis

from ports import free_port
from processes import started, until

FOLDER = Path(__file__).parents[2] / "examples" / "fastapi"
START = 60.0
ADA = {"Authorization": "Bearer token-of-ada"}


def test_report_is_written_once_although_a_worker_dies(admin: redis.Redis, url: str) -> None:
    port = free_port()
    serve = [sys.executable, "-m", "uvicorn", "reports:app", "--port", str(port)]
    work = [sys.executable, "-m", "lockwork", "worker", "reports:lw", "--lease", "3"]
    with (
        started(serve, folder=FOLDER, url=url) as web,
        started(work, folder=FOLDER, url=url) as worker,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=START, headers=ADA) as client,
    ):
        until(lambda: "running on" in web.errors, "the app is open", START)
        until(lambda: "works on default" in worker.errors, "the worker is ready", START)
        orders = [client.post("/reports", json={"pages": 10}, headers={"Idempotency-Key": "r1"}) for _ in range(2)]
        assert [order.status_code for order in orders] == [202, 202], orders[0].text
        assert orders[0].json() == orders[1].json()
        address = f"/reports/{orders[0].json()['job']}/events"
        others = client.get(address, headers={"Authorization": "Bearer token-of-bob"})
        assert (others.status_code, client.get(address, headers={"Authorization": ""}).status_code) == (404, 401)
        seen: list[Any] = []
        with client.stream("GET", address) as answer:
            for line in answer.iter_lines():
                if not line.startswith("data: "):
                    continue
                seen.append(json.loads(line.removeprefix("data: ")))
                if len(seen) == 2:
                    (child,) = worker.children()
                    os.kill(child, signal.SIGKILL)
        assert seen[-1] == {"state": "succeeded", "result": "10 pages for ada"}
        pages = [each["page"] for each in seen[:-1]]
        assert pages == sorted(set(pages))
        assert pages[-1] == 10
        limited = [
            client.post("/reports", json={"pages": 1}, headers={"Idempotency-Key": f"n{n}"}).status_code
            for n in range(5)
        ]
        assert limited == [202, 202, 202, 202, 429]
        worker.send(signal.SIGTERM)
        assert worker.wait(START) == 0
