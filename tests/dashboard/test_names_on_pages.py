"""Names from users' data on the dashboard: displayed, linked, and usable in actions."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest

from dashboard.conftest import Client, said
from lockwork import Lockwork
from lockwork.dashboard.formats import visible
from lockwork.protocol import names

NASTY = [
    "",
    "two words",
    " padded ",
    "100%",
    "a,b;c",
    "{a}b{",
    "a&b=c#d?",
    "<b>'\"",
    "a\nb",
    "\u2028",
    "\u65e5\u672c \U0001f600",
    "x" * 201,
    "[ab]*",
]


@pytest.mark.parametrize("option", ["key", "group"])
@pytest.mark.parametrize("name", [name for name in NASTY if name])
async def test_link_of_a_name_finds_its_jobs(alw: Lockwork, client: Client, option: str, name: str) -> None:
    task: Any = alw.task(queue="mail", name="sent", **{option: "{customer}"})(  # type: ignore[call-overload]
        lambda customer: None
    )
    made = {each: (await task.aenqueue(each)).id for each in NASTY}
    async with client() as browser:
        page = (await browser.get(f"/job/{made[name]}")).text
        link, text = re.findall(rf'<a href="([^"]*[?&;]{option}=[^"]*)">([^<]*)</a>', page)[0]
        assert html.unescape(text).strip() == visible(names.display(name)).strip()
        found = (await browser.get(html.unescape(link))).text
        assert {id for id in made.values() if id in found} == {made[name]}


@pytest.mark.parametrize("name", NASTY)
async def test_lock_with_any_name_is_released(alw: Lockwork, client: Client, name: str) -> None:
    for each in NASTY:
        await alw.lock(each).aacquire()
    shown = names.display(name)
    async with client(allow_actions=True) as browser:
        page = (await browser.get("/locks", params={"name": shown})).text
        fields = [
            {key: html.unescape(value) for key, value in re.findall(r'name="(\w+)" value="([^"]*)"', form)}
            for form in re.findall(r"<form.*?</form>", page, re.DOTALL)
        ]
        (form,) = [each for each in fields if "key" in each and each["name"] == shown]
        sent = {key: form[key] for key in ("key", "name", "fence")}
        sentence = await said(browser, "/locks", "release", typed=" ".join(shown.split()), **sent)
        assert sentence.startswith("Released ")
    assert [each for each in NASTY if not await alw.lock(each).alocked()] == [name]
    await alw.arelease_all()


async def test_limiters_and_stocks_are_shown(alw: Lockwork, client: Client) -> None:
    for each in NASTY:
        await alw.limiter(each, "1/h").aacquire()
        await alw.stock(each, 3).areserve("ada")
    async with client() as browser:
        for path in ("/limiters", "/stocks"):
            page = html.unescape((await browser.get(path)).text)
            assert all(visible(names.display(each)) in page for each in NASTY)
            assert "%20" not in page.replace("%2520", "")
        found = html.unescape((await browser.get("/limiters", params={"name": "x" * 201})).text)
        assert f'title="{names.display("x" * 201)}"' in found
        assert "two words" not in found
