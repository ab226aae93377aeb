"""The dashboard refuses whom it does not know, and never acts for another page."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from starlette.requests import Request

from dashboard.browsing import serving
from dashboard.conftest import SAME, Client, act
from lockwork import Lockwork
from lockwork.dashboard import User, access, app
from lockwork.dashboard import users as users_file
from lockwork.dashboard.pages import PAGES
from lockwork.errors import ConfigError

TOKEN = "0123456789abcdef0123"
EVENTS = {"Accept": "text/event-stream"}
PATHS = [re.sub(r"\{.*?\}", "x", page.path) for page in PAGES]


async def test_page_without_the_token_leads_to_the_login(client: Client) -> None:
    async with client(token=TOKEN) as browser:
        for path in PATHS:
            page = await browser.get(path)
            assert page.status_code == 303
            assert page.headers["location"].startswith("/-/login?next=")
            for accept in ("*/*", "text/event-stream"):
                assert (await browser.get(path, headers={"Accept": accept})).status_code == 401
            assert (await browser.post(path, data={"action": "pause"}, headers=SAME)).status_code == 401
        assert (await browser.get("/nothing")).status_code == 303


async def test_token_logs_in_by_form_and_by_header(client: Client) -> None:
    async with client(token=TOKEN) as browser:
        wrong = await browser.post("/-/login", data={"secret": "x" * 20}, headers=SAME)
        assert wrong.status_code == 401
        assert "The token is wrong" in wrong.text
        right = await browser.post("/-/login", data={"secret": TOKEN, "next": "/queues?sort=dead"}, headers=SAME)
        assert (right.status_code, right.headers["location"]) == (303, "/queues?sort=dead")
        cookie = right.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        assert TOKEN not in cookie
        assert (await browser.get("/queues")).status_code == 200
    async with client(token=TOKEN) as program:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        assert (await program.get("/queues", headers=headers)).status_code == 200
        assert (await program.get("/queues", headers={"Authorization": f"Bearer {TOKEN}x"})).status_code != 200


@pytest.mark.parametrize(
    "asked", ["//evil.example/", "https://evil.example/", "/\\evil.example", "javascript:alert(1)"]
)
async def test_login_leads_to_no_other_site(client: Client, asked: str) -> None:
    async with client(token=TOKEN) as browser:
        answer = await browser.post("/-/login", data={"secret": TOKEN, "next": asked}, headers=SAME)
        assert answer.status_code == 303
        assert answer.headers["location"] == "/-/login"


async def test_forged_and_ended_cookies_are_refused(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async with client(token=TOKEN) as browser:
        await browser.post("/-/login", data={"secret": TOKEN}, headers=SAME)
        cookie = browser.cookies[access.SESSION]
        name, end, nonce, signature = cookie.split("~")
        for forged in (f"{name}~{int(end) + 1}~{nonce}~{signature}", f"YQ~{end}~{nonce}~{signature}", "~~~", "x"):
            browser.cookies.set(access.SESSION, forged)
            assert (await browser.get("/queues")).status_code == 303, forged
        browser.cookies.clear()
        browser.cookies.set(access.SESSION, cookie)
        assert (await browser.get("/queues")).status_code == 200
        monkeypatch.setattr(time, "time", lambda: int(end) + 1.0)
        assert (await browser.get("/queues")).status_code == 303


async def test_streams_and_copied_cookies_end_with_the_logout(url: str) -> None:
    with serving(url, token=TOKEN) as address:
        async with httpx.AsyncClient(base_url=address) as browser, httpx.AsyncClient(base_url=address) as other:
            for each in (browser, other):
                await each.post("/-/login", data={"secret": TOKEN}, headers=SAME)
            copied = browser.cookies[access.SESSION]
            async with (
                browser.stream("GET", "/queues", headers=EVENTS) as stream,
                other.stream("GET", "/queues", headers=EVENTS) as going_on,
            ):
                events, others = stream.aiter_lines(), going_on.aiter_lines()
                await until_event(events, "page")
                await browser.post("/-/logout", headers=SAME)
                await until_event(events, "gone")
                assert [line async for line in events if line.startswith("event:")] == []
                await until_event(others, "page")
            assert access.SESSION not in browser.cookies
            browser.cookies.set(access.SESSION, copied)
            assert (await browser.get("/queues")).status_code == 401
            assert (await other.get("/queues")).status_code == 200


@pytest.mark.parametrize("later", [False, User("ada", actions=False)])
async def test_streams_end_when_authorize_says_otherwise(url: str, later: User | bool) -> None:
    verdicts: list[User | bool] = [User("ada")]
    with serving(url, authorize=lambda _: verdicts[-1]) as address:
        async with (
            httpx.AsyncClient(base_url=address) as browser,
            browser.stream("GET", "/queues", headers=EVENTS) as stream,
        ):
            events = stream.aiter_lines()
            await until_event(events, "page")
            verdicts.append(later)
            await until_event(events, "gone")


async def until_event(lines: AsyncIterator[str], name: str) -> None:
    async with asyncio.timeout(10):
        async for line in lines:
            if line == f"event: {name}":
                return
    raise AssertionError(f"the stream ended without {name!r}")


async def test_users_log_in_with_passwords_and_a_viewer_cannot_act(
    client: Client, mail: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "users"
    ada, bob = users_file.hash_password("lovelace"), users_file.hash_password("viewing")
    file.write_text(f"# who\nada:{ada}\nbob:{bob}:view\n")
    users = users_file.read_users(file)
    for name, password, status in (("ada", "lovelace", 303), ("ada", "viewing", 401), ("eve", "lovelace", 401)):
        async with client(users=users, allow_actions=True) as browser:
            answer = await browser.post("/-/login", data={"name": name, "secret": password}, headers=SAME)
            assert answer.status_code == status
    async with client(users=users, allow_actions=True) as browser:
        await browser.post("/-/login", data={"name": "bob", "secret": "viewing"}, headers=SAME)
        assert "read-only" in (await browser.get("/queues")).text
        assert (await browser.post("/queues/mail", data={"action": "resume"}, headers=SAME)).status_code == 403


@pytest.mark.parametrize("line", ["ada", "ada:secret", "ada:scrypt$1$2:admin", ":scrypt$1$2"])
def test_bad_lines_of_the_file_of_users_are_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "users"
    file.write_text(f"\n{line}\n")
    with pytest.raises(ConfigError, match="line 2 of"):
        users_file.read_users(file)


async def test_authorize_decides_sync_or_async(client: Client) -> None:
    def by_header(request: Request) -> User | str | bool | None:
        known: dict[str, User | str | bool] = {"a": User("ada"), "b": "bob", "c": True}
        return known.get(request.headers.get("x-who", ""))

    async def later(request: Request) -> bool:
        return request.headers.get("x-who") == "a"

    async with client(authorize=by_header, host="intranet.example") as browser:
        for who, status in (("a", 200), ("b", 200), ("c", 200), ("d", 403)):
            assert (await browser.get("/queues", headers={"X-Who": who})).status_code == status
    async with client(authorize=later) as browser:
        assert (await browser.get("/queues", headers={"X-Who": "a"})).status_code == 200
        assert (await browser.get("/queues")).status_code == 403


def test_short_token_is_refused(lw: Lockwork) -> None:
    with pytest.raises(ConfigError, match="at least 16"):
        app(lw, token="short")


async def test_without_a_login_only_this_machine_is_served(client: Client) -> None:
    for address, status in (("127.0.0.1", 200), ("::1", 200), ("::ffff:127.0.0.1", 200), ("192.0.2.7", 403)):
        async with client(client=address) as browser:
            assert (await browser.get("/queues")).status_code == status, address
    async with client(client="192.0.2.7", token=TOKEN) as browser:
        assert (await browser.get("/queues")).status_code == 303


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8787", 200),
        ("localhost:8787", 200),
        ("[::1]:8787", 200),
        ("192.0.2.1", 200),
        ("board.example", 200),
        ("BOARD.example.:8787", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("", 421),
    ],
)
async def test_foreign_host_is_refused(client: Client, host: str, status: int) -> None:
    async with client(allowed_hosts=["board.example"]) as browser:
        assert (await browser.get("/queues", headers={"Host": host})).status_code == status


async def test_reading_only_unless_actions_are_allowed(client: Client, mail: list[str]) -> None:
    for page in PAGES:
        for action in page.actions:
            async with client() as browser:
                path = re.sub(r"\{.*?\}", "mail", page.path)
                shown = await browser.get(path)
                assert 'name="action"' not in shown.text
                session = browser.cookies[access.SESSION]
                form = {"action": action, "csrf": access.csrf_token(session)}
                answer = await browser.post(path, data=form, headers=SAME)
                assert answer.status_code == 403
                assert "--allow-actions" in answer.text


async def test_actions_need_the_same_origin_and_the_token_of_the_form(
    client: Client, alw: Lockwork, mail: list[str]
) -> None:
    async with client(allow_actions=True) as browser:
        origin = {"Origin": "http://127.0.0.1:8787"}
        refused = [
            {"headers": {}},
            {"headers": {"Sec-Fetch-Site": "cross-site"}},
            {"headers": {"Sec-Fetch-Site": "same-site"}},
            {"headers": {"Sec-Fetch-Site": "none"}},
            {"headers": {"Origin": "http://evil.example"}},
            {"headers": {"Origin": "null"}},
            {"headers": {**SAME, "Origin": "http://127.0.0.1:9999"}},
            {"headers": SAME, "csrf": ""},
            {"headers": SAME, "csrf": access.csrf_token("another session")},
        ]
        for sent in refused:
            assert (await act(browser, "/queues/mail", "pause", **sent)).status_code == 403, sent  # type: ignore[arg-type]
            assert not (await alw.queue("mail").astatus()).paused
        for headers in (SAME, origin, {**SAME, **origin}):
            assert (await act(browser, "/queues/mail", "pause", headers)).status_code == 303
            assert (await alw.queue("mail").astatus()).paused
            await alw.queue("mail").aresume()
        assert (await browser.get("/queues/mail?action=pause")).status_code == 200
        assert not (await alw.queue("mail").astatus()).paused
        assert (await act(browser, "/queues/mail", "nothing")).status_code == 400


async def test_action_is_logged(client: Client, mail: list[str], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "lockwork.dashboard")
    async with client(allow_actions=True) as browser:
        await act(browser, "/queues/mail", "pause", note="a\nb")
    (line,) = [each.getMessage() for each in caplog.records if each.name == "lockwork.dashboard"]
    assert "action queue.pause at '/queues/mail' by 'local' from 127.0.0.1" in line
    assert r"'note': 'a\nb'" in line
    assert "done" in line


async def test_refused_or_failed_action_is_logged(
    client: Client, mail: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "lockwork.dashboard")
    async with client(allow_actions=True) as browser:
        await act(browser, "/queues/mail", "limit", rate="often")
        await act(browser, "/queues/mail", "pause", {"Sec-Fetch-Site": "cross-site"})
        await act(browser, "/queues/mail", "burn")
        form = {"action": "retry", "csrf": access.csrf_token(browser.cookies[access.SESSION])}
        await browser.post("/dead", data=form, headers=SAME)
        await act(browser, "/jobs/change?do=cancel&queue=mail", "run", count="3")
    async with client() as browser:
        await browser.get("/queues")
        form = {"action": "pause_all", "csrf": access.csrf_token(browser.cookies[access.SESSION])}
        await browser.post("/queues", data=form, headers=SAME)
    lines = [each.getMessage() for each in caplog.records if each.name == "lockwork.dashboard"]
    assert "action queue.limit at '/queues/mail'" in lines[0]
    assert "failed, " in lines[0]
    assert "refused, 'The form was not sent by a page of this dashboard" in lines[1]
    assert "action queue.burn" in lines[2]
    assert "refused, 'This page has no such action.'" in lines[2]
    assert "failed, 'No group was named.'" in lines[3]
    assert "'do': 'cancel', 'queue': 'mail', 'count': '3'}: done, '3 jobs are cancelled.'" in lines[-2]
    assert "refused, 'This dashboard is read-only: it was started without --allow-actions" in lines[-1]


@pytest.mark.parametrize("path", ["/-/login", "/-/logout"])
async def test_other_sites_log_nobody_in_or_out(client: Client, path: str) -> None:
    async with client(token=TOKEN) as browser:
        for headers in ({}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}):
            answer = await browser.post(path, data={"secret": TOKEN}, headers=headers)
            assert answer.status_code == 403
            assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("path", ["/", "/jobs", "/metrics", "/-/login", "/-/assets/app.js", "/nothing"])
async def test_everything_is_refused_to_foreign_hosts_and_other_machines(client: Client, path: str) -> None:
    async with client(token=TOKEN) as browser:
        assert (await browser.get(path, headers={"Host": "evil.example"})).status_code == 421
        stream = {"Host": "evil.example", "Accept": "text/event-stream"}
        assert (await browser.get(path, headers=stream)).status_code == 421
        assert (await browser.post(path, headers={"Host": "evil.example", **SAME})).status_code == 421
    async with client(client="192.0.2.7") as browser:
        assert (await browser.get(path)).status_code == 403
        assert (await browser.get(path, headers={"X-Forwarded-For": "127.0.0.1"})).status_code == 403


async def test_reading_pages_and_counting_change_nothing(client: Client, alw: Lockwork, mail: list[str]) -> None:
    async with client(allow_actions=True) as browser:
        for path in (
            "/queues/mail?action=clear", f"/job/{mail[0]}?action=delete", "/jobs?action=cancel",
            "/jobs/change?do=delete&queue=mail&action=run&count=3",
        ):  # fmt: skip
            assert (await browser.get(path, headers=SAME)).status_code == 200
    assert (await alw.queue("mail").astatus()).ready == 3


async def test_response_has_the_security_headers(client: Client) -> None:
    nonces = set()
    async with client(token=TOKEN) as browser:
        for path in ("/-/login", "/queues", "/metrics", "/-/assets/app.js", "/-/assets/nothing"):
            headers = (await browser.get(path)).headers
            policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
            assert policy["default-src"] == "'none'"
            assert policy["frame-ancestors"] == "'none'"
            assert "unsafe" not in str(policy)
            nonces.add(policy["script-src"])
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "same-origin"
        refused = await browser.get("/queues", headers={"Host": "evil.example"})
        assert "content-security-policy" in refused.headers
    assert len(nonces) == 5


async def test_pages_have_no_inline_script_style_or_host_name(client: Client, mail: list[str]) -> None:
    async with client(allow_actions=True) as browser:
        for path in ("/", "/queues", "/queues/mail", "/jobs", "/jobs/change?do=cancel", "/dead", "/nothing"):
            page = (await browser.get(path)).text
            assert not re.search(r"\son\w+=|\sstyle=|javascript:|<style", page)
            assert all("src=" in tag and "nonce=" in tag for tag in re.findall(r"<script[^>]*>", page))
            links = re.findall(r'(?:href|src|action)="([^"]*)"', page)
            assert all(link.startswith(("/", "#")) and not link.startswith("//") for link in links), links


async def test_long_forms_are_refused(client: Client) -> None:
    async with client(allow_actions=True) as browser:
        answer = await browser.post("/queues", content=b"a=" + b"x" * 300_000, headers=SAME)
        assert answer.status_code == 413
