"""What an attacker tries: guess the token, forge where a request comes from, and wear the dashboard out."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping

import pytest

from dashboard.conftest import SAME, Client, act
from lockwork import Lockwork
from lockwork.dashboard import access, app
from lockwork.errors import ConfigError

TOKEN = "0123456789abcdef0123"
GUESSES = access.MOST_FAILURES


@pytest.mark.parametrize("by", ["form", "header"])
async def test_after_many_wrong_tokens_an_address_has_to_wait(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, by: str
) -> None:
    monkeypatch.setattr("lockwork.dashboard.server._WRONG_SECONDS", 0.0)
    async with client(token=TOKEN) as browser:

        async def guess(token: str) -> int:
            if by == "header":
                return (await browser.get("/queues", headers={"Authorization": f"Bearer {token}"})).status_code
            return (await browser.post("/-/login", data={"secret": token}, headers=SAME)).status_code

        await browser.post("/-/login", data={"secret": TOKEN}, headers=SAME)
        session = dict(browser.cookies)
        browser.cookies.clear()
        found = [await guess(f"{number:020}") for number in range(GUESSES)]
        assert 429 not in found[:-1]
        assert await guess(TOKEN) == 429
        assert "127.0.0.1 has to wait: it sent 20 wrong" in caplog.text
        assert (await browser.get("/queues", headers={"Accept": "text/html"})).status_code == 303
        browser.cookies.update(session)
        assert (await browser.get("/queues")).status_code == 200  # who is logged in stays so
        browser.cookies.clear()
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + access.FAILURE_SECONDS + 1)
        assert await guess(TOKEN) in (200, 303)


async def test_passwords_are_guessed_no_faster_all_at_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lockwork.dashboard.server._WRONG_SECONDS", 0.0)
    users = {"ada": access.hash_password("lovelace")}
    async with client(users=users) as browser, asyncio.TaskGroup() as group:
        tries = [
            group.create_task(browser.post("/-/login", data={"name": "ada", "secret": str(number)}, headers=SAME))
            for number in range(GUESSES + 10)
        ]
    assert sorted(each.result().status_code for each in tries) == [401] * GUESSES + [429] * 10
    async with client(users=users, client="192.0.2.7") as browser:
        answer = await browser.post("/-/login", data={"name": "ada", "secret": "lovelace"}, headers=SAME)
        assert answer.status_code == 303


@pytest.mark.parametrize(
    "headers", [{"X-Forwarded-For": "192.0.2.7"}, {"X-Real-IP": "192.0.2.7"}, {"Forwarded": "for=192.0.2.7"}]
)
async def test_without_a_login_no_proxy_lets_other_machines_in(client: Client, headers: Mapping[str, str]) -> None:
    async with client() as browser:
        answer = await browser.get("/queues", headers=headers)
        assert answer.status_code == 403
        assert "A proxy forwards this request" in answer.text
    async with client(token=TOKEN) as browser:
        assert (await browser.get("/queues", headers=headers)).status_code == 303


@pytest.mark.parametrize(
    ("headers", "secure"),
    [(SAME, False), ({**SAME, "X-Forwarded-Proto": "https"}, True), ({"Origin": "https://127.0.0.1:8787"}, True)],
)
async def test_cookies_are_secure_behind_a_proxy_with_tls(
    client: Client, headers: Mapping[str, str], *, secure: bool
) -> None:
    async with client(token=TOKEN) as browser:
        answer = await browser.post("/-/login", data={"secret": TOKEN}, headers=headers)
        assert answer.status_code == 303
        assert ("Secure" in answer.headers["set-cookie"]) is secure


async def test_a_proxy_that_hides_the_host_is_named(client: Client, mail: list[str]) -> None:
    """The browser shows https://board.example, and the proxy asks for http://127.0.0.1:8787."""
    headers = {**SAME, "Origin": "https://board.example"}
    async with client(allow_actions=True) as browser:
        answer = await act(browser, "/queues/mail", "pause", headers)
        assert answer.status_code == 403
        assert "'https://board.example'" in answer.text
        assert "pass the Host header" in answer.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 200),
        ({"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 200),
        ({"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}, 200),
    ],
)
async def test_other_sites_may_link_to_a_page_and_load_nothing(
    client: Client, mail: list[str], headers: Mapping[str, str], status: int
) -> None:
    async with client() as browser:
        for path in ("/queues", "/jobs/change?do=cancel&queue=mail", "/-/assets/app.js", "/metrics"):
            assert (await browser.get(path, headers=headers)).status_code == status, path


@pytest.mark.parametrize("query", ["q=" + "a" * 62_000, "&".join(f"f{at}=1" for at in range(5000))])
async def test_a_query_of_any_length_is_answered_at_once(client: Client, mail: list[str], query: str) -> None:
    async with client() as browser:
        before = time.perf_counter()
        answer = await browser.get(f"/jobs?{query}")
        assert answer.status_code == 414
        assert time.perf_counter() - before < 1
    async with client() as browser:  # as long as one may be
        before = time.perf_counter()
        answer = await browser.get("/jobs?" + "&".join(f"f{at}=1" for at in range(1000)))
        assert answer.status_code == 200
        assert time.perf_counter() - before < 3


@pytest.mark.parametrize("path", ["/dead?after=bnVsbA==", "/job/x?queue=%00", "/dead?after=zz"])
async def test_a_wrong_address_is_no_fault_of_the_server(client: Client, path: str) -> None:
    async with client() as browser:
        answer = await browser.get(path)
        assert answer.status_code == 400
        assert "does not answer" not in answer.text


@pytest.mark.parametrize(
    "host", ["[::1].evil.example", "localhost:80:90", "127.0.0.1, evil.example", "127.0.0.1:8787x"]
)
async def test_a_host_that_is_none_is_refused(client: Client, host: str) -> None:
    async with client() as browser:
        assert (await browser.get("/queues", headers={"Host": host})).status_code == 421


@pytest.mark.parametrize("name", ["http://board.example", "board.example:8787", "", "a b", "board.example/"])
def test_an_allowed_host_that_no_browser_sends_is_refused(lw: Lockwork, name: str) -> None:
    with pytest.raises(ConfigError, match="names alone"):
        app(lw, allowed_hosts=["board.example", name])


async def test_who_is_not_logged_in_leaves_a_line_in_the_log(
    client: Client, alw: Lockwork, mail: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "lockwork.dashboard")
    async with client(token=TOKEN, allow_actions=True) as browser:
        assert (await browser.post("/queues/mail", data={"action": "clear"}, headers=SAME)).status_code == 401
        browser.headers["Authorization"] = f"Bearer {TOKEN}"
        assert (await browser.post("/queues/mail", content=b"a=\xff", headers=SAME)).status_code == 400
        assert (await browser.post("/queues/mail", content=b"a" * 300_000, headers=SAME)).status_code == 413
    assert (await alw.queue("mail").astatus()).ready == 3
    lines = [each.getMessage() for each in caplog.records if each.name == "lockwork.dashboard"]
    assert "action at '/queues/mail' from 127.0.0.1: refused, nobody is logged in" in lines[0]
    assert "action queue. at '/queues/mail' by 'token' from 127.0.0.1" in lines[1]
    assert all("refused" in line for line in lines)
    assert len(lines) == 3
