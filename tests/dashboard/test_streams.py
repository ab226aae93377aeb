"""Live pages are bounded, and unfinished requests keep no other client waiting."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.types import Message

from dashboard.browsing import serving
from lockwork import Lockwork
from lockwork.dashboard import connections
from lockwork.dashboard.access import SESSION
from lockwork.dashboard.streams import MOST_OF_BROWSER, MOST_STREAMS, Streams
from processes import until

EVENTS = {"Accept": "text/event-stream"}


async def test_fifth_stream_of_a_browser_is_refused_and_its_place_comes_back(url: str, alw: Lockwork) -> None:
    with serving(url) as address:
        async with httpx.AsyncClient(base_url=address) as one, httpx.AsyncClient(base_url=address) as other:
            for client in (one, other):
                await client.get("/queues")
            requests = [one.build_request("GET", "/queues", headers=EVENTS) for _ in range(MOST_OF_BROWSER)]
            streams = [await one.send(request, stream=True) for request in requests]
            assert [each.status_code for each in streams] == [200] * MOST_OF_BROWSER
            refused = await one.get("/queues", headers=EVENTS)
            assert refused.status_code == 503
            assert "in this browser" in refused.text
            async with other.stream("GET", "/queues", headers=EVENTS) as stream:
                assert stream.status_code == 200
            await streams.pop().aclose()
            async with asyncio.timeout(10):
                while True:
                    async with one.stream("GET", "/queues", headers=EVENTS) as again:
                        if again.status_code == 200:
                            break
            for each in streams:
                await each.aclose()


async def test_storm_of_streams_leaves_room_for_other_pages(url: str, alw: Lockwork) -> None:
    """All requests arrive before the first response: each counts at its arrival."""
    with serving(url) as address:
        place = urlsplit(address)
        writers = []

        async def ask(number: int) -> int:
            reader, writer = await asyncio.open_connection(place.hostname, place.port)
            writers.append(writer)
            head = (
                f"GET /queues HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nCookie: {SESSION}=b{number}"
            )
            writer.write(f"{head}\r\n\r\n".encode())
            return int((await reader.readline()).split()[1])

        async with asyncio.timeout(60):
            storm = asyncio.gather(*(ask(number) for number in range(3 * MOST_STREAMS)))
            async with httpx.AsyncClient(base_url=address, timeout=30) as client:
                assert (await client.get("/queues")).status_code == 200
                assert Counter(await storm) == {200: MOST_STREAMS, 503: 2 * MOST_STREAMS}
                assert (await client.get("/queues")).status_code == 200
        for writer in writers:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)


async def test_stream_whose_client_reads_nothing_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lockwork.dashboard.streams._SLOWEST", 0.05)
    streams = Streams()

    async def events() -> AsyncIterator[str]:
        while True:
            yield "data: 1"

    async def receive() -> Message:
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            await asyncio.get_running_loop().create_future()

    async with asyncio.timeout(10):
        await streams.response("a", events())({"type": "http"}, receive, send)
    for _ in range(MOST_STREAMS + 1):
        with streams.place("a") as refusal:
            assert refusal == ""


@pytest.fixture
def half_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "PATIENCE", 0.3)
    monkeypatch.setattr("lockwork.dashboard.server._FORM_SECONDS", 0.3)


WHOLE = b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF = b"GET /queues HTTP/1.1\r\nHost: loc"
HALF_FORM = (
    b"POST /queues HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-origin\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\naction=pause"
)


@pytest.mark.parametrize("sent", [[], [HALF], [WHOLE, HALF]])
@pytest.mark.usefixtures("half_timed")
def test_half_request_ends_in_time(url: str, sent: list[bytes]) -> None:
    with serving(url) as address, connected(address) as client:
        for each in sent:
            client.sendall(each)
            if each == WHOLE:
                assert b" 404 " in until_end_of_page(client)
        assert rest(client) == b""


@pytest.mark.usefixtures("half_timed")
def test_form_that_does_not_come_in_time_is_refused(url: str) -> None:
    with serving(url, allow_actions=True) as address, connected(address) as client:
        client.sendall(HALF_FORM)
        assert b" 408 " in client.recv(65536)


def until_end_of_page(client: socket.socket) -> bytes:
    found = b""
    while b"</html>" not in found:
        found += client.recv(65536)
    return found


def connected(address: str) -> socket.socket:
    place = urlsplit(address)
    return socket.create_connection((place.hostname or "", place.port or 0), timeout=20)


def rest(client: socket.socket) -> bytes:
    """Read what remains until the server closes the connection."""
    found = b""
    try:
        while part := client.recv(65536):
            found += part
    except ConnectionResetError:
        pass
    return found


def test_silent_connections_are_ended_to_make_room(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_WAITING", 5)
    with serving(url) as address, ExitStack() as stack:
        silent = [stack.enter_context(connected(address)) for _ in range(30)]
        for each in silent:
            each.setblocking(False)

        def ended() -> int:
            return sum(is_closed(each) for each in silent)

        until(lambda: ended() >= 25, "the oldest are ended")
        assert httpx.get(f"{address}/queues", timeout=10).status_code == 200
        assert not is_closed(silent[-1])


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
