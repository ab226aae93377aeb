"""The file of users: written as a whole, read again when it changes; and cookies that reveal no secret."""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from dashboard.conftest import SAME, Client
from lockwork import Lockwork
from lockwork.dashboard import access, app
from lockwork.dashboard.users import add_user, hash_password, read_users
from lockwork.errors import ConfigError

TOKEN = "0123456789abcdef0123"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "users"
    made.write_text(
        f"# the night shift\nada:{hash_password('lovelace')}\n\n# who only looks\nbob:{hash_password('b')}:view\n"
    )
    return made


def test_added_user_keeps_comments_and_order(file: Path) -> None:
    before = file.read_text().splitlines()
    add_user(file, "eve", "apple", view=True)
    add_user(file, "ada", "byron", view=False)
    after = file.read_text().splitlines()
    assert [line.partition(":")[0] for line in after] == [*(line.partition(":")[0] for line in before), "eve"]
    assert after[4] == before[4]
    assert after[1] != before[1]
    assert after[5].endswith(":view")


def test_file_of_comments_alone_gets_its_first_user(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text("# nobody yet\n")
    add_user(file, "ada", "lovelace", view=False)
    assert file.read_text().startswith("# nobody yet\nada:scrypt$")


def test_written_file_can_be_read_by_its_owner_alone(file: Path) -> None:
    file.chmod(0o644)
    add_user(file, "eve", "apple", view=False)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [each.name for each in file.parent.iterdir()] == ["users"]


def test_symbolic_link_to_the_file_stays_one(file: Path) -> None:
    link = file.parent / "link"
    link.symlink_to(file)
    add_user(link, "eve", "apple", view=False)
    assert link.is_symlink()
    assert "eve" in read_users(file)


def test_failed_write_leaves_the_file_as_it_was(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = file.read_text()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match="No space left"):
        add_user(file, "eve", "apple", view=False)
    assert file.read_text() == before
    assert [each.name for each in file.parent.iterdir()] == ["users"]


def test_users_added_at_once_are_all_there(file: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: add_user(file, f"user{number}", "secret", view=False), range(8)))
    assert set(read_users(file)) == {"ada", "bob", *(f"user{number}" for number in range(8))}


def test_file_that_is_something_else_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text("[server]\nport = 80\n")
    with pytest.raises(ConfigError, match="line 1 of"):
        add_user(file, "eve", "apple", view=False)
    assert file.read_text().startswith("[server]")


async def logged_in(browser: httpx.AsyncClient, name: str, secret: str) -> int:
    return (await browser.post("/-/login", data={"name": name, "secret": secret}, headers=SAME)).status_code


async def test_changed_file_is_read_while_the_dashboard_runs(
    client: Client, file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("lockwork.dashboard.users._FRESH", 0.0)
    monkeypatch.setattr("lockwork.dashboard.server._WRONG_SECONDS", 0.0)
    async with client(users=file) as browser:
        assert await logged_in(browser, "ada", "lovelace") == 303
        assert await logged_in(browser, "eve", "apple") == 401
        add_user(file, "eve", "apple", view=False)
        assert (await browser.get("/queues")).status_code == 200
        file.write_text("half a li")
        assert (await browser.get("/queues")).status_code == 200  # the earlier users remain
        assert "the earlier users remain" in caplog.text
        file.write_text(f"eve:{hash_password('apple')}\n")
        assert (await browser.get("/queues")).status_code == 303  # ada was removed
        assert await logged_in(browser, "eve", "apple") == 303


async def test_changed_password_ends_the_sessions_of_its_user(
    client: Client, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockwork.dashboard.users._FRESH", 0.0)
    monkeypatch.setattr("lockwork.dashboard.server._WRONG_SECONDS", 0.0)
    async with client(users=file) as browser:
        await logged_in(browser, "ada", "lovelace")
        add_user(file, "ada", "byron", view=False)
        assert (await browser.get("/queues")).status_code == 303


async def test_changed_token_ends_all_its_sessions_and_processes_share_them(client: Client) -> None:
    async with client(token=TOKEN) as browser, client(token=TOKEN) as other, client(token=f"{TOKEN}4") as changed:
        await browser.post("/-/login", data={"secret": TOKEN}, headers=SAME)
        for each, status in ((other, 200), (changed, 303)):
            each.cookies.update(browser.cookies)
            assert (await each.get("/queues")).status_code == status


async def test_cookie_is_signed_with_neither_the_token_nor_the_hash(client: Client) -> None:
    stored = hash_password("lovelace")
    async with client(token=TOKEN) as browser, client(users={"ada": stored}) as of_users:
        await browser.post("/-/login", data={"secret": TOKEN}, headers=SAME)
        await logged_in(of_users, "ada", "lovelace")
        for cookies, key in ((browser.cookies, TOKEN), (of_users.cookies, stored)):
            text, _, signature = cookies[access.SESSION].rpartition("~")
            assert signature != hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


def test_users_that_are_no_hashes_are_refused(lw: Lockwork) -> None:
    with pytest.raises(ConfigError, match="no hash"):
        app(lw, users={"ada": "lovelace"})
