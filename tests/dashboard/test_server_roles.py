"""The dashboard with a user of the server who may only read, and what Prometheus reads of it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
import redis
from prometheus_client.parser import text_string_to_metric_families

from dashboard.browsing import aside
from dashboard.conftest import SAME, Client, said
from lockwork import Lockwork
from lockwork.dashboard import app
from lockwork.dashboard.pages import PAGES
from roles import as_role

TOKEN = "0123456789abcdef0123"


@pytest.fixture
def viewer(url: str, admin: redis.Redis) -> Iterator[str]:
    yield as_role(url, "viewer")
    admin.acl_deluser("viewer")


@pytest.fixture
async def board(viewer: str) -> AsyncIterator[httpx.AsyncClient]:
    """A dashboard that allows actions, as a user of the server who may only read."""
    async with Lockwork(viewer) as lw:
        transport = httpx.ASGITransport(app(lw, allow_actions=True), client=("127.0.0.1", 5000))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as browser:
            browser.headers["Accept"] = "text/html"
            yield browser


async def test_viewer_reads_every_page(board: httpx.AsyncClient, alw: Lockwork, mail: list[str]) -> None:
    phones = alw.stock("phones", 10)
    await phones.areserve("ada", 2)
    grant = await alw.lock("a").aacquire()
    await alw.limiter("api", "5/s").aacquire()
    task = alw.task(name="step", queue="steps")(print)
    flow = await alw.chord([task.options(key="a").call(at) for at in range(3)], task).aenqueue()
    for page in PAGES:
        if page.path.endswith("}") and "worker" in page.path:
            continue
        path = re.sub(r"\{queue.*?\}", "mail", page.path)
        path = re.sub(r"\{(id|name).*?\}", flow.id if page.name == "flow" else mail[0], path)
        answer = await board.get(path)
        assert answer.status_code == 200, (path, re.sub(r"<[^>]+>|\s+", " ", answer.text)[-600:])
    assert f"/flow/{flow.id}" in (await board.get("/flows")).text
    assert 'id="limiter-api"' in (await board.get("/limiters")).text
    job_page = (await board.get(f"/job/{flow.job(2).id}?queue=steps")).text
    assert 'class="graph"' in job_page
    assert 'id="neighbors"' in job_page
    for path in ("/jobs?arg=2", "/jobs/change?do=cancel&queue=mail", "/jobs?state=done"):
        assert (await board.get(path)).status_code == 200, path
    await grant.arelease()


@pytest.mark.parametrize(
    ("path", "action", "fields"),
    [
        ("/queues/mail", "pause", {}),
        ("/queues/mail", "limit", {"rate": "5/s"}),
        ("/queues/mail", "clear", {"typed": "mail"}),
        ("/queues", "pause_all", {}),
        ("/job/{id}", "cancel", {}),
        ("/job/{id}", "delete", {}),
        ("/jobs/change?do=cancel&queue=mail", "run", {"count": "3"}),
        ("/jobs/change?do=delete&queue=mail", "run", {"count": "3"}),
    ],
)
async def test_action_as_a_viewer_is_refused_in_one_sentence(
    board: httpx.AsyncClient, alw: Lockwork, mail: list[str], path: str, action: str, fields: dict[str, str]
) -> None:
    message = await said(board, path.replace("{id}", mail[0]), action, **fields)
    assert message.endswith(
        "The server user of this dashboard may only read. Connect as a user with the role operator."
    )
    assert (await alw.queue("mail").astatus()).ready == 3
    assert not (await alw.queue("mail").astatus()).paused


async def test_prometheus_reads_the_families_that_the_command_serves(
    client: Client, alw: Lockwork, mail: list[str]
) -> None:
    from lockwork.telemetry.prometheus import LockworkCollector

    async with client() as program:
        answer = await program.get("/metrics")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        found = {family.name: family for family in text_string_to_metric_families(answer.text)}
    served = aside(lambda: list(LockworkCollector(alw).collect()))
    assert set(found) == {family.name for family in served}
    ready = [each.value for each in found["lockwork_jobs"].samples if each.labels["state"] == "ready"]
    assert ready == [3.0]


async def test_metrics_are_read_by_those_who_may_read_the_dashboard(client: Client, mail: list[str]) -> None:
    async with client(token=TOKEN) as program:
        assert (await program.get("/metrics", headers={"Accept": "*/*"})).status_code == 401
        answer = await program.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 200
        assert "lockwork_jobs{" in answer.text
        assert (await program.post("/metrics", headers=SAME)).status_code == 405
    async with client(client="192.0.2.7") as program:
        assert (await program.get("/metrics")).status_code == 403
    async with client(authorize=lambda request: False) as program:
        assert (await program.get("/metrics")).status_code == 403


async def test_metrics_are_read_by_a_viewer_of_the_server(board: httpx.AsyncClient, mail: list[str]) -> None:
    answer = await board.get("/metrics")
    assert "lockwork_server_up 1" in answer.text
    assert 'lockwork_jobs{queue="mail",state="ready"} 3' in answer.text
