"""Invisible characters are shown as codes, and ids by the part that differs."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator

import httpx
import pytest

from dashboard.browsing import serving
from dashboard.conftest import Client
from lockwork import Lockwork
from lockwork.dashboard.formats import Prose, cut, middle, visible
from lockwork.words import short_id

STEERING = [*"\u061c\u200b\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"]
JOINERS = [*"\u200c\u200d"]
_EXACT = re.compile(r'(?:value|data-copy)="[^"]*"')


@pytest.mark.parametrize("sign", STEERING)
def test_sign_that_steers_is_a_code_everywhere(sign: str) -> None:
    code = f"a\\u{ord(sign):04x}b"
    assert visible(f"a{sign}b") == visible(Prose(f"a{sign}b")) == code


@pytest.mark.parametrize("sign", JOINERS)
def test_joiner_is_a_code_in_names_alone(sign: str) -> None:
    assert visible(f"a{sign}b") == f"a\\u{ord(sign):04x}b"
    assert visible(Prose(f"a{sign}b")) == visible(cut(Prose(f"a{sign}b"))) == f"a{sign}b"


async def test_pages_show_invisible_characters_as_codes(client: Client, alw: Lockwork) -> None:
    @alw.task(queue="mail", name="send\u200dmoney")
    async def send(to: str, more: dict[str, str]) -> None: ...

    signs = "".join(STEERING)
    long = {f"key{signs}": "x" * 150 + signs}
    job = await send.options(tags=("a\u200db",)).aenqueue(f"gpj.{signs}exe \u200d", long)
    async with client(allow_actions=True) as browser:
        for path in (
            "/",
            "/queues/mail",
            "/jobs",
            f"/jobs?q={signs}",
            f"/job/{job.id}",
            "/tasks",
            "/jobs/change?do=cancel",
        ):
            page = (await browser.get(path)).text
            shown = _EXACT.sub("", page)
            assert not [sign for sign in STEERING if sign in shown], path
            assert "send\u200dmoney" not in shown
        page = (await browser.get(f"/job/{job.id}")).text
        assert "\\u202e" in page
        assert "exe \u200d" in page
        assert "send\\u200dmoney" in page


async def test_stream_writes_invisible_characters_as_codes(url: str, alw: Lockwork) -> None:
    job = await alw.task(queue="mail", name="send")(lambda to: None).aenqueue("a\u202eb")
    with serving(url) as address:
        async with httpx.AsyncClient(base_url=address, headers={"Accept": "text/event-stream"}) as browser:
            for path, event in (
                (f"/job/{job.id}", "page"),
                ("/job/gpj.\u202eexe.1234", "gone"),
                ("/queues/a\u2066b", "gone"),
            ):
                async with browser.stream("GET", path) as stream:
                    lines = [line async for line in until_data(stream)]
                assert lines[-2] == f"event: {event}"
                sent = json.loads(lines[-1].removeprefix("data: "))
                assert not [sign for sign in STEERING if sign in sent], path
                assert re.search(r"\\u20[26][e6]", sent)


async def until_data(stream: httpx.Response) -> AsyncIterator[str]:
    async for line in stream.aiter_lines():
        yield line
        if line.startswith("data: "):
            return


async def test_text_that_every_link_would_repeat_is_refused_without_repeating_it(client: Client, alw: Lockwork) -> None:
    async with client() as browser:
        for path in ("/jobs?q=", "/dead?text=", "/locks?name=", "/?range="):
            answer = await browser.get(path + "z" * 7000)
            assert answer.status_code == 400
            assert "zzz" not in answer.text
            assert (await browser.get(path + "z" * 150)).status_code == 200
        assert (await browser.get("/jobs?q=" + "z" * 500)).text.count("z" * 500) < 100


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("report@2026-11-24T13:00:00Z", "report@2026-11-24T13:01:00Z"),
        ("a-long-name-of-a-schedule@2026-11-24T13:00:00Z", "a-long-name-of-a-schedule@2026-11-24T13:00:01Z"),
        ("report@2026-11-24T13:00:00.250Z", "report@2026-11-24T13:00:00.500Z"),
        ("a-schedule@P7GzmK2cMWr17HWe", "a-schedule@P7GzmK2cMWr17HWf"),
        ("P7GzmK2cMWr17HWe.00003", "P7GzmK2cMWr18AWf.00003"),
        ("P7GzmK2cMWr17HWe.00003", "P7GzmK2cMWr17HWe.00004"),
        ("P7GzmK2cMWr17HWefC", "P7GzmK2cMWr17HWffC"),
        ("P7GzmK2cMWr17HWe", "P7GzmK2cMWr17HWf"),
        ("order-2026-000123-mail", "order-2026-000124-mail"),
    ],
)
def test_short_ids_differ_where_the_ids_do(one: str, other: str) -> None:
    assert short_id(one) != short_id(other)
    assert len(short_id(one)) <= 20


@pytest.mark.parametrize("most", [16, 22, 80])
def test_long_names_are_cut_where_they_seldom_differ(most: int) -> None:
    names = [f"shop.customers.synchronize_the_addresses_of_all_branches_with_the_other_system.{n}" for n in range(3)]
    assert len({middle(name, most) for name in names}) == 3
    assert {len(middle(name, most)) for name in names} == {most}
    assert middle(names[0], 100) == names[0]
    assert middle(f"other.{names[0]}", most) != middle(names[0], most)


async def test_pages_cut_names_in_the_middle(client: Client, alw: Lockwork) -> None:
    names = [f"customers-of-the-shop-in-europe-with-a-long-name-{n}" for n in range(2)]
    for name in names:
        task = alw.task(queue=name, name=name.replace("-", "."))(lambda *given: None)
        await alw.chord([task.call(), task.call()], task).aenqueue()
        await alw.lock(name).aacquire()
        await alw.limiter(name, "1/h").aacquire()
        await alw.stock(name, 3).areserve("ada")
    async with client() as browser:
        for path in ("/queues", "/jobs", "/locks", "/limiters", "/stocks", "/flows"):
            shown = re.sub(r"<[^>]*>", "\n", (await browser.get(path)).text)
            for end in ("0", "1"):
                assert re.search(rf"[a-z.…-]name[.-]{end}$", shown, re.MULTILINE), (path, end)
    await alw.arelease_all()
