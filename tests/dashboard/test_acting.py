"""Messages of actions that cannot apply, or whose target was deleted."""

from __future__ import annotations

import html
import logging
import re

import httpx
import pytest

from dashboard.conftest import SAME, Client, csrf
from lockwork import Lockwork
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, leases, task_limits
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Outcome
from lockwork.protocol.queue.task_limits import LimitedTask, TaskLimits


async def answered(browser: httpx.AsyncClient, path: str, token: str, action: str, **form: str) -> tuple[str, str]:
    """Send a form of a page; return the address that follows, and how it says what happened."""
    sent = {"action": action, "csrf": token, "next": path, **form}
    answer = await browser.post(path, data=sent, headers=SAME)
    while answer.status_code == 303:
        shown = answer.headers["location"]
        answer = await browser.get(shown)
    found = re.search(r'class="said (good|bad)" role="status">.*?<span>(.*?)</span>', answer.text)
    assert found, answer.text[:3000]
    return shown, f"{found[1]}: {html.unescape(found[2])}"


async def test_deleted_job_is_reported_on_the_list(client: Client, alw: Lockwork, mail: list[str]) -> None:
    async with client(allow_actions=True) as browser:
        first, second = (f"/job/{id}?queue=mail" for id in mail[:2])
        token = await csrf(browser, first)
        assert await answered(browser, first, token, "delete") == ("/jobs", "good: The job is deleted.")
        await alw.job(mail[1]).adelete()
        for action, text in (
            ("now", "The job is not scheduled, or no longer exists."),
            ("cancel", "The job has already ended, or no longer exists."),
            ("delete", "The job is running, or no longer exists."),
            ("retry", "The job is neither dead, cancelled nor expired, or its record is gone."),
        ):
            assert await answered(browser, second, token, action) == ("/jobs", f"bad: {text}")


async def test_ineffective_action_is_logged_as_failed(
    client: Client, alw: Lockwork, mail: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "lockwork.dashboard")
    async with client(allow_actions=True) as browser:
        token = await csrf(browser, f"/job/{mail[0]}")
        await alw.job(mail[0]).adelete()
        await answered(browser, f"/job/{mail[0]}", token, "cancel")
    (line,) = [each.getMessage() for each in caplog.records if each.name == "lockwork.dashboard"]
    assert line.endswith("failed, 'The job has already ended, or no longer exists.'")


async def test_queue_is_cleared_after_its_name_is_typed(client: Client, alw: Lockwork, mail: list[str]) -> None:
    path = "/queues/mail"
    async with client(allow_actions=True) as browser:
        token = await csrf(browser, path)
        for typed in ({}, {"typed": "mai"}):
            answer = await answered(browser, path, token, "clear", **typed)
            assert answer == (path, "bad: Type mail to clear it: nothing was deleted.")
            assert (await alw.queue("mail").astatus()).ready == 3
        answer = await answered(browser, path, token, "clear", typed="mail")
        assert answer == (path, "good: Deleted 3 waiting jobs of queue mail.")


async def test_paused_task_is_shown_and_resumed(client: Client, alw: Lockwork, mail: list[str]) -> None:
    keys = QueueKeys("lw", "mail")
    limits = TaskLimits(failures=1, window_ms=60_000, pause_ms=300_000)
    run = alw.runtime.arun
    assert mail
    await run(leases.beat(keys, {"host/1/a": True}, 60_000, 1.0))
    await run(task_limits.declare(keys, {"fragile": LimitedTask(limits, ("fragile",))}))
    await run(enqueue.push(keys, [NewJob("a", b'0,1,,;["fragile",[]]')]))
    (job,) = (await run(leases.reserve(keys, "host/1/a", 1, "r1", ""))).jobs
    await run(leases.settle(keys, "host/1/a", [Outcome(job.id, job.token, "d", b"{}", 0, "fragile")], 60_000))
    async with client(allow_actions=True) as browser:
        token = await csrf(browser, "/queues/mail")
        page = (await browser.get("/queues/mail")).text
        assert "Tasks with limits" in page
        assert "1 failure in" in page
        _, said = await answered(browser, "/queues/mail", token, "resume_task", task="fragile")
        assert said == "good: Task fragile of queue mail is no longer paused."
        _, said = await answered(browser, "/queues/mail", token, "resume_task", task="fragile")
        assert said == "bad: Task fragile is not paused in queue mail."
