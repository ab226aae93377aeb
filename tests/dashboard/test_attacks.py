"""Attacks: guessed tokens, forged origins, and exhausted resources."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping

import httpx
import pytest

from dashboard.conftest import SAME, Client, act
from lockwork import Lockwork
from lockwork.dashboard import addresses, app
from lockwork.dashboard import users as users_file
from lockwork.errors import ConfigError

TOKEN = "0123456789abcdef0123"
GUESSES = addresses.MOST_FAILURES


async def guessed(browser: httpx.AsyncClient, token: str, by: str, **headers: str) -> int:
    if by == "header":
        sent = {**headers, "Authorization": f"Bearer {token}"}
        return (await browser.get("/queues", headers=sent)).status_code
    return (await browser.post("/-/login", data={"secret": token}, headers={**SAME, **headers})).status_code


@pytest.mark.parametrize("by", ["form", "header"])
async def test_right_token_passes_after_many_wrong_ones(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, by: str
) -> None:
    """Behind a proxy all clients have one address: an attacker must not lock the others out."""
    monkeypatch.setattr("lockwork.dashboard.server._WRONG_SECONDS", 0.0)
    async with client(token=TOKEN) as browser:
        found = [await guessed(browser, f"{number:020}", by) for number in range(GUESSES + 10)]
        assert found[-11:] == [429] * 11
        assert 429 not in found[: GUESSES - 1]
        assert "127.0.0.1 has to wait: 20 wrong tokens" in caplog.text
        assert await guessed(browser, TOKEN, by) in (200, 303)
        metrics = await browser.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        assert metrics.status_code == 200
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + addresses.FAILURE_SECONDS + 1)
        assert await guessed(browser, "x" * 20, by) != 429


@pytest.mark.parametrize("by", ["form", "header"])
async def test_wrong_tokens_count_by_the_address_that_a_trusted_proxy_names(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, by: str
) -> None:
    monkeypatch.setattr("lockwork.dashboard.server._WRONG_SECONDS", 0.0)
    async with client(token=TOKEN, client="10.0.0.7", trust_proxies=["10.0.0.0/24"]) as browser:
        for number in range(GUESSES + 1):  # the attacker's own header values come before the proxy's
            forwarded = f"203.0.113.{number}, 192.0.2.66:4711, 10.0.0.9"
            last = await guessed(browser, "x" * 20, by, **{"X-Forwarded-For": forwarded})
        assert last == 429
        assert "192.0.2.66 has to wait" in caplog.text
        assert await guessed(browser, "x" * 20, by, **{"X-Forwarded-For": "192.0.2.67"}) != 429
    async with client(token=TOKEN, client="10.0.1.7", trust_proxies=["10.0.0.0/24"]) as browser:
        for number in range(GUESSES + 1):  # not a trusted proxy, so its header does not count
            last = await guessed(browser, "x" * 20, by, **{"X-Forwarded-For": f"203.0.113.{number}"})
        assert last == 429


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, "10.0.0.7"),
        ({"X-Forwarded-For": "192.0.2.1"}, "192.0.2.1"),
        ({"X-Forwarded-For": "[2001:db8::1]:80"}, "2001:db8::1"),
        ({"X-Forwarded-For": "::ffff:192.0.2.1"}, "192.0.2.1"),
        ({"X-Forwarded-For": "192.0.2.1, unknown"}, "10.0.0.7"),
        ({"X-Forwarded-For": "192.0.2.1, 10.0.0.8, 10.0.0.9"}, "192.0.2.1"),
        ({"X-Forwarded-For": "10.0.0.8"}, "10.0.0.8"),
        ({"X-Forwarded-For": ""}, "10.0.0.7"),
        ({"X-Real-IP": "192.0.2.1", "Forwarded": "for=192.0.2.1"}, "10.0.0.7"),
    ],
)
async def test_audit_names_the_client_of_a_trusted_proxy(
    client: Client, caplog: pytest.LogCaptureFixture, headers: Mapping[str, str], expected: str
) -> None:
    caplog.set_level(logging.INFO, "lockwork.dashboard")
    async with client(token=TOKEN, client="10.0.0.7", trust_proxies=["10.0.0.0/24"]) as browser:
        await browser.post("/-/login", data={"secret": TOKEN}, headers={**SAME, **headers})
    assert f"login of 'token' from {expected}" in caplog.messages


async def test_client_of_a_trusted_proxy_is_served_without_a_login_only_on_this_machine(client: Client) -> None:
    for named, status in (("127.0.0.1", 200), ("192.0.2.7", 403), ("127.0.0.1, 192.0.2.7", 403)):
        async with client(trust_proxies=["127.0.0.1"]) as browser:
            answer = await browser.get("/queues", headers={"X-Forwarded-For": named})
            assert answer.status_code == status, named


@pytest.mark.parametrize("wrong", ["proxy.example", "10.0.0.7/8", "", "10.0.0.7:80"])
def test_trusted_proxy_that_is_no_address_is_refused(lw: Lockwork, wrong: str) -> None:
    with pytest.raises(ConfigError, match="an address or a network"):
        app(lw, token=TOKEN, trust_proxies=[wrong])
    with pytest.raises(ConfigError, match="list of addresses"):
        app(lw, token=TOKEN, trust_proxies="10.0.0.7")


async def test_passwords_count_before_the_comparison_by_user_and_address(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockwork.dashboard.server._WRONG_SECONDS", 0.0)
    users = {name: users_file.hash_password("lovelace") for name in ("ada", "bob")}

    async def enter(browser: httpx.AsyncClient, name: str, secret: str) -> int:
        return (await browser.post("/-/login", data={"name": name, "secret": secret}, headers=SAME)).status_code

    async with client(users=users) as browser:
        async with asyncio.TaskGroup() as group:
            tries = [group.create_task(enter(browser, "ada", str(number))) for number in range(GUESSES + 10)]
        assert sorted(each.result() for each in tries) == [401] * GUESSES + [429] * 10
        assert await enter(browser, "ada", "lovelace") == 429  # else a guess among many at once would be compared
        assert await enter(browser, "bob", "lovelace") == 303
    async with client(users=users, client="192.0.2.7") as browser:
        assert await enter(browser, "ada", "lovelace") == 303


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


async def test_proxy_that_hides_the_host_is_named(client: Client, mail: list[str]) -> None:
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
async def test_query_of_any_length_is_answered_at_once(client: Client, mail: list[str], query: str) -> None:
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


@pytest.mark.parametrize(
    "path",
    [
        "/job/x?queue=%00",
        "/jobs?after=zz",
        "/jobs?after=WzUsdHJ1ZSwxZTMwMCwiIiwiIl0=",
    ],
)
async def test_wrong_address_is_a_client_error(client: Client, path: str) -> None:
    async with client() as browser:
        answer = await browser.get(path)
        assert answer.status_code == 400
        assert "does not answer" not in answer.text


@pytest.mark.parametrize(
    "host", ["[::1].evil.example", "localhost:80:90", "127.0.0.1, evil.example", "127.0.0.1:8787x"]
)
async def test_invalid_host_is_refused(client: Client, host: str) -> None:
    async with client() as browser:
        assert (await browser.get("/queues", headers={"Host": host})).status_code == 421


@pytest.mark.parametrize("name", ["http://board.example", "board.example:8787", "", "a b", "board.example/"])
def test_allowed_host_that_no_browser_sends_is_refused(lw: Lockwork, name: str) -> None:
    with pytest.raises(ConfigError, match="names alone"):
        app(lw, allowed_hosts=["board.example", name])


async def test_action_without_a_login_is_logged(
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
