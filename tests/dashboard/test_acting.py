"""Messages of actions that cannot apply, or whose target was deleted."""

from __future__ import annotations

import html
import logging
import re

import httpx
import pytest

from dashboard.conftest import SAME, Client, csrf
from lockwork import Lockwork


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
