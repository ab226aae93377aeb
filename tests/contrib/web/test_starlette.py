"""The integration with FastAPI and Starlette, on a real server."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import redis
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import PlainTextResponse

import zygote
from lockwork import ConfigError, Lockwork
from lockwork.contrib.starlette import IdempotencyKeys, limited, rate_limit
from ports import free_port
from processes import Started, started, until, worker

START = 60.0
HERE = Path(__file__).parent
UVICORN = [sys.executable, "-c", "import uvicorn; uvicorn.main()"]
_IMPORTS = """
fastapi
uvicorn.lifespan.on
uvicorn.loops.auto
uvicorn.protocols.http.auto
uvicorn.protocols.websockets.auto
"""
"""Modules whose imports take most of the CPU time of an app's process."""


@pytest.fixture(scope="module")
def forked_servers() -> None:
    """Start the app as a copy of one process that has imported FastAPI and Uvicorn."""
    zygote.start(((zygote.IMPORTS, _IMPORTS),))


@pytest.fixture(autouse=True)
def forked(forked_servers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(zygote.IMPORTS, _IMPORTS)


class Web(NamedTuple):
    process: Started
    client: httpx.Client


@contextmanager
def serving(app: str, url: str) -> Iterator[Web]:
    port = free_port()
    command = [*UVICORN, app, "--port", str(port), "--no-access-log", "--timeout-graceful-shutdown", "1"]
    with (
        started(command, folder=HERE, url=url) as process,
        # uvicorn closes the connection after an error of the app
        httpx.Client(
            base_url=f"http://127.0.0.1:{port}", timeout=START, limits=httpx.Limits(max_keepalive_connections=0)
        ) as client,
    ):
        until(lambda: "running on" in process.errors, "the app is open", START)
        yield Web(process, client)


@pytest.fixture
def web(url: str, admin: redis.Redis) -> Iterator[Web]:
    with serving("fastapi_app:app", url) as made:
        yield made


def pay(web: Web, amount: int, key: str = "k1", user: str | None = "ada") -> httpx.Response:
    headers = {"Idempotency-Key": key, **({"Authorization": user} if user else {})}
    return web.client.post("/payments", json={"amount": amount}, headers=headers)


def sent_events(web: Web, id: str, **headers: str) -> list[tuple[str, Any]]:
    found, name = [], ""
    with web.client.stream("GET", f"/jobs/{id}/events", headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        for line in answer.iter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                found.append((name, json.loads(line.removeprefix("data: "))))
            elif line.startswith(":"):
                found.append(("comment", None))
    return found


def test_lifespan_opens_and_closes_around_the_inner_one(web: Web) -> None:
    assert web.process.line() == "inner lifespan starts"
    assert web.client.get("/queues").json() == {"queues": [], "greeting": "hello"}
    web.process.send(signal.SIGTERM)
    assert web.process.wait(START) in (0, -signal.SIGTERM)
    assert web.process.line() == "inner lifespan ends"
    assert "ERROR" not in web.process.errors


def test_app_does_not_start_without_a_server() -> None:
    command = [*UVICORN, "fastapi_app:app", "--port", str(free_port())]
    with started(command, folder=HERE, url=f"redis://127.0.0.1:{free_port()}") as process:
        assert process.wait(START) == 3
        assert "ServerUnavailable" in process.errors


def test_requests_beyond_the_rate_get_429_with_the_fields_of_the_draft(web: Web) -> None:
    first, second, third = (web.client.get("/limited") for _ in range(3))
    assert (first.status_code, second.status_code, third.status_code) == (200, 200, 429)
    assert first.headers["ratelimit-policy"] == third.headers["ratelimit-policy"] == '"search";q=2;w=3600'
    assert first.headers["ratelimit"] == '"search";r=1;t=1800'
    assert second.headers["ratelimit"].startswith('"search";r=0;t=')
    after = int(third.headers["retry-after"])
    assert 1700 < after <= 1800
    assert third.headers["ratelimit"] == f'"search";r=0;t={after}'
    assert third.json() == {"detail": "Too many requests."}


def test_rate_is_per_key_and_key_none_is_unlimited(web: Web) -> None:
    def status(user: str) -> int:
        return web.client.get("/by-user", headers={"x-user": user}).status_code

    assert [status("ada") for _ in range(3)] == [200, 200, 429]
    assert status("bob") == 200
    free = [web.client.get("/by-user") for _ in range(3)]
    assert [(each.status_code, "ratelimit" in each.headers) for each in free] == [(200, False)] * 3


def test_decorated_endpoints_of_starlette_are_limited(web: Web) -> None:
    answers = [web.client.get("/plain/") for _ in range(2)]
    assert [each.status_code for each in answers] == [200, 429]
    assert answers[0].headers["ratelimit"].startswith('"default";r=0;t=')
    ada = {"x-user": "ada"}
    assert [web.client.get("/plain/def", headers=ada).status_code for _ in range(2)] == [200, 429]


def test_endpoints_with_the_same_function_name_have_rates_of_their_own(web: Web) -> None:
    assert [web.client.get(f"/same/{name}").status_code for name in ("one", "two", "one", "two")] == [
        200,
        200,
        429,
        429,
    ]


def test_endpoint_may_have_several_limits(web: Web) -> None:
    answers = [web.client.get("/both", headers={"x-user": "ip:127.0.0.1"}) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    left = [field.split(";")[1] for field in answers[1].headers.get_list("ratelimit", split_commas=True)]
    assert left == ["r=0", "r=98", "r=98"]


def test_decorator_limits_methods_and_endpoints_of_fastapi(web: Web) -> None:
    assert [web.client.get("/plain/page").status_code for _ in range(2)] == [200, 429]
    assert [web.client.get("/decorated").status_code for _ in range(2)] == [200, 429]


def test_repeated_request_gets_all_cookies(web: Web) -> None:
    headers = {"Idempotency-Key": "c1", "Authorization": "ada"}
    first, again = (web.client.post("/cookies", headers=headers) for _ in range(2))
    assert (first.json(), again.json()) == ("1", "1")
    assert first.headers.get_list("set-cookie") == again.headers.get_list("set-cookie")
    assert len(again.headers.get_list("set-cookie")) == 2


def test_repeated_request_gets_the_first_answer(web: Web) -> None:
    first, again = pay(web, 5), pay(web, 5, '"k1"')
    assert (first.status_code, first.json()) == (201, {"number": 1})
    assert (again.status_code, again.json()) == (201, {"number": 1})
    assert again.headers["content-type"] == first.headers["content-type"]
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers


def test_another_body_is_refused_and_another_key_or_caller_runs(web: Web) -> None:
    assert pay(web, 5).json() == {"number": 1}
    refused = pay(web, 6)
    assert (refused.status_code, refused.headers["content-type"]) == (422, "application/problem+json")
    assert pay(web, 5, "k2").json() == {"number": 2}
    assert pay(web, 5, user="bob").json() == {"number": 3}
    assert pay(web, 5, user=None).json() == {"number": 4}
    assert pay(web, 5, user=None).json() == {"number": 5}
    assert pay(web, 5, "two words").status_code == 400
    assert pay(web, 5, "").status_code == 400


def test_request_gets_409_while_the_first_one_runs(web: Web) -> None:
    answers: list[httpx.Response] = []
    first = threading.Thread(target=lambda: answers.append(pay(web, 15)))
    first.start()
    until(lambda: web.client.get("/waiting").json() == 1, "the first request runs", START)
    waiting = pay(web, 15)
    assert (waiting.status_code, waiting.headers["retry-after"]) == (409, "1")
    web.client.get("/release")
    first.join()
    assert [(each.status_code, each.json()) for each in [*answers, pay(web, 15)]] == [(201, {"number": 1})] * 2


def test_first_request_continues_when_its_client_disconnects(web: Web) -> None:
    headers = {"Idempotency-Key": "k1", "Authorization": "ada"}
    with pytest.raises(httpx.ReadTimeout):
        web.client.post("/payments", json={"amount": 15}, headers=headers, timeout=1)
    assert web.client.get("/waiting").json() == 1
    web.client.get("/release")
    until(lambda: pay(web, 15).status_code == 201, "the first request ends")
    assert pay(web, 15).json() == {"number": 1}


def test_failed_request_does_not_run_again_but_a_refused_one_does(web: Web) -> None:
    assert [pay(web, 13, "fire").status_code for _ in range(2)] == [500, 500]
    assert web.process.errors.count("\nRuntimeError: the bank is on fire") == 1
    assert [pay(web, 14, "later").status_code for _ in range(2)] == [429, 429]
    assert pay(web, 5, "later").json() == {"number": 1}
    invalid = web.client.post(
        "/payments", json={"amount": "x"}, headers={"Idempotency-Key": "typo", "Authorization": "ada"}
    )
    assert invalid.status_code == 422
    assert pay(web, 5, "typo").json() == {"number": 2}


def test_too_long_answer_is_sent_and_not_kept(web: Web) -> None:
    headers = {"Idempotency-Key": "long", "Authorization": "ada"}
    assert len(web.client.post("/long", headers=headers).json()) == 2000
    again = web.client.post("/long", headers=headers)
    assert (again.status_code, "status 200" in again.json()["detail"]) == (409, True)
    assert pay(web, 5).json() == {"number": 2}


def test_events_of_jobs_end(web: Web, url: str) -> None:
    with worker("fastapi_app:lw", url=url, folder=HERE) as process:
        until(lambda: "works on default" in process.errors, "the worker is ready", START)
        id = web.client.post("/jobs/3").json()
        seen = sent_events(web, id)
        values = [value for name, value in seen if name == "progress"]
        assert values == sorted(values)
        assert values[-1] == 3
        assert ("comment", None) in seen
        end = ("end", {"state": "succeeded", "result": 3})
        assert seen[-1] == end
        assert sent_events(web, id)[-1] == end
        stopped = web.client.get(f"/jobs/{id}/events", headers={"Last-Event-ID": "end"})
        assert (stopped.status_code, stopped.content) == (204, b"")
        assert sent_events(web, web.client.post("/jobs/0").json()) == [
            ("end", {"state": "dead", "error": {"type": "ValueError", "text": "no paper"}})
        ]
    assert web.client.get("/jobs/missing/events").status_code == 404
    assert web.client.get(f"/jobs/{id}/events", headers={"Authorization": "nobody"}).status_code == 403


def test_closed_streams_leave_nothing_behind(web: Web) -> None:
    id = web.client.post("/jobs/3").json()  # no worker runs it
    web.client.get("/streams")
    before = web.client.get("/streams").json()
    for _ in range(20):
        with web.client.stream("GET", f"/jobs/{id}/events") as answer:
            next(answer.iter_lines())
    until(
        lambda: (
            [now <= then for now, then in zip(web.client.get("/streams").json(), before, strict=True)] == [True] * 2
        ),
        "all streams are closed",
    )
    web.process.send(signal.SIGTERM)
    assert web.process.wait(START) in (0, -signal.SIGTERM)
    assert "Error" not in web.process.errors


@pytest.mark.parametrize("extension", ["http.response.pathsend", "http.response.debug"])
async def test_answer_by_an_extension_of_the_server_is_kept(lw: Lockwork, extension: str) -> None:
    async def app(scope: Any, _receive: Any, send: Any) -> None:
        if extension in scope["extensions"]:
            await send({"type": extension, "path": "/file"})
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"file"})

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def request() -> list[Any]:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "extensions": {extension: {}}}
        scope["headers"] = [(b"idempotency-key", b"k1")]
        await IdempotencyKeys(app, lw, caller=lambda _: "ada")(scope, receive, send)
        return sent

    for _ in range(2):
        start, body = await request()
        assert (start["status"], body["body"]) == (200, b"file")
    await lw.aclose()


async def test_answer_is_kept_without_compression(lw: Lockwork) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await PlainTextResponse("x" * 100)(scope, receive, send)

    middleware = IdempotencyKeys(GZipMiddleware(app, minimum_size=10), lw, caller=lambda _: "ada")
    transport = httpx.ASGITransport(app=GZipMiddleware(middleware, minimum_size=10))
    async with httpx.AsyncClient(transport=transport, base_url="http://shop.example") as client:
        for encoding in ("gzip", "identity", "gzip"):
            answer = await client.post("/", headers={"Idempotency-Key": "k1", "Accept-Encoding": encoding})
            assert answer.text == "x" * 100
            assert answer.headers.get("content-encoding", "identity") == encoding
    await lw.aclose()


async def test_decorated_function_without_a_request_is_refused() -> None:
    @limited("1/h")
    async def without_request(number: int) -> Any: ...

    with pytest.raises(ConfigError, match="without_request takes no request"):
        await without_request(7)


def test_wrong_options_are_refused(lw: Lockwork) -> None:
    async def app(_scope: Any, _receive: Any, _send: Any) -> None:
        raise AssertionError

    with pytest.raises(ConfigError, match="key must be a function"):
        rate_limit("1/s", key="ip")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="rate"):
        rate_limit("often")
    with pytest.raises(ConfigError, match="caller must be a function"):
        IdempotencyKeys(app, lw, caller="ada")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="largest must be below"):
        IdempotencyKeys(app, lw, caller=lambda _: "ada", largest=1 << 30)
