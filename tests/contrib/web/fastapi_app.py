"""A FastAPI app with a Starlette app below /plain, and their tasks, for the tests."""

import asyncio
import gc
import inspect
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import BackgroundTasks, Depends, FastAPI, HTTPException
from pydantic import BaseModel
from starlette.endpoints import HTTPEndpoint
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, Router

from lockwork import Lockwork, current_job
from lockwork.contrib.starlette import IdempotencyKeys, get_lockwork, job_events, lifespan, limited, rate_limit

lw = Lockwork(os.environ["LOCKWORK_URL"], prefix="web")
WebLockwork = Annotated[Lockwork, Depends(get_lockwork)]


@lw.task
async def count(to: int) -> int:
    for number in range(1, to + 1):
        await current_job().aprogress(number)
        await asyncio.sleep(0.2)
    return to


@lw.task(retries=0)
async def fail() -> None:
    raise ValueError("no paper")


@asynccontextmanager
async def own(_app: Any) -> AsyncIterator[dict[str, str]]:
    print("inner lifespan starts", flush=True)
    yield {"greeting": "hello"}
    print("inner lifespan ends", flush=True)


app = FastAPI(lifespan=lifespan(lw, own))
app.add_middleware(
    IdempotencyKeys, lw=lw, caller=lambda request: request.headers.get("authorization"), largest=1000, every="1h"
)


class Payment(BaseModel):
    amount: int


@app.get("/queues")
async def queues(lw: WebLockwork, request: Request) -> dict[str, Any]:
    return {"queues": await lw.aqueues(), "greeting": request.state.greeting}


@app.get("/limited", dependencies=[Depends(rate_limit("2/h", name="search"))])
async def search() -> str:
    return "found"


def of_user(request: Request) -> str | None:
    return request.headers.get("x-user")


@app.get("/by-user", dependencies=[Depends(rate_limit("1/h", key=of_user, burst=2))])
def by_user() -> str:
    return "found"


@app.get("/same/one", dependencies=[Depends(rate_limit("1/h"))])
def same() -> str:
    return "one"


@app.get("/same/two", dependencies=[Depends(rate_limit("1/h"))])  # type: ignore[no-redef]
def same() -> str:  # noqa: F811 - as two modules of routes that were merged
    return "two"


@app.get(
    "/both",
    dependencies=[Depends(rate_limit("2/h")), Depends(rate_limit("100/h")), Depends(rate_limit("100/h", key=of_user))],
)
def both() -> str:
    return "both"


@app.get("/decorated")
@limited("1/h")
async def decorated(request: Request) -> Response:
    return PlainTextResponse(request.url.path)


payments: list[int] = []
waiting: list[int] = []
released = asyncio.Event()


@app.get("/waiting")
async def count_waiting() -> int:
    return len(waiting)


@app.get("/release")
async def release() -> None:
    released.set()


@app.post("/payments", status_code=201)
async def pay(payment: Payment, tasks: BackgroundTasks) -> dict[str, int]:
    if payment.amount == 13:
        raise RuntimeError("the bank is on fire")
    if payment.amount == 14:
        raise HTTPException(429, "later")
    if payment.amount == 15:
        waiting.append(payment.amount)
        await released.wait()
    payments.append(payment.amount)
    tasks.add_task(asyncio.sleep, 0.01)
    return {"number": len(payments)}


@app.post("/long")
async def long() -> str:
    payments.append(0)
    return "x" * 2000


@app.post("/cookies")
async def set_cookies(response: Response) -> str:
    response.set_cookie("a", "1")
    response.set_cookie("b", "2")
    payments.append(0)
    return str(len(payments))


@app.get("/streams")
async def streams() -> list[int]:
    return [len(asyncio.all_tasks()), sum(1 for each in gc.get_objects() if inspect.isasyncgen(each) and each.ag_frame)]


@app.post("/jobs/{to}")
async def start(to: int) -> str:
    return (await count.aenqueue(to) if to else await fail.aenqueue()).id


@app.get("/jobs/{id}/events")
async def events(id: str, lw: WebLockwork, request: Request) -> Response:
    if request.headers.get("authorization") == "nobody":
        raise HTTPException(403)
    return await job_events(request, lw.job(id), heartbeat=0.1)


@limited("1/h")
async def plain(_request: Request) -> Response:
    return PlainTextResponse("plain")


@limited("1/h", key=of_user)
def plain_def(_request: Request) -> Response:
    return JSONResponse("def")


class Page(HTTPEndpoint):
    @limited("1/h")
    async def get(self, _request: Request) -> Response:
        return PlainTextResponse("page")


app.mount("/plain", Router([Route("/", plain), Route("/def", plain_def), Route("/page", Page)]))
