"""Reports on demand: a FastAPI app and its jobs.

Run `uvicorn reports:app`, and in another terminal `lockwork worker reports:lw`.
"""

import asyncio
import os
from typing import Annotated

from fastapi import Depends, FastAPI, Header, HTTPException, Request, Response
from pydantic import BaseModel

from lockwork import Lockwork, current_job
from lockwork.contrib.starlette import IdempotencyKeys, get_lockwork, job_events, lifespan, rate_limit

TOKENS = {"token-of-ada": "ada", "token-of-bob": "bob"}

lw = Lockwork(prefix=os.environ.get("REPORTS_PREFIX", "reports"))


@lw.task(key="report:{user}")
async def write_report(user: str, pages: int) -> str:
    """Write the pages of a report, or the missing ones if a worker died."""
    job = current_job()
    for page in range(job.checkpoints.get("page", 0) + 1, pages + 1):
        await asyncio.sleep(0.2)
        await job.acheckpoint("page", page)
        await job.aprogress({"page": page, "of": pages})
    return f"{pages} pages for {user}"


def user_of(request: Request) -> str | None:
    """Return the user of the token."""
    return TOKENS.get(request.headers.get("authorization", "").removeprefix("Bearer "))


def current_user(request: Request) -> str:
    """Return the user of the token, or answer 401."""
    if (user := user_of(request)) is None:
        raise HTTPException(401, "Send a token.")
    return user


def required_key(idempotency_key: Annotated[str, Header()]) -> str:
    """Answer 422 to an order without the header."""
    return idempotency_key


User = Annotated[str, Depends(current_user)]
WebLockwork = Annotated[Lockwork, Depends(get_lockwork)]

app = FastAPI(lifespan=lifespan(lw))
app.add_middleware(IdempotencyKeys, lw=lw, caller=user_of)


class Order(BaseModel):
    """The order of a report."""

    pages: int


@app.post("/reports", status_code=202, dependencies=[Depends(required_key), Depends(rate_limit("5/m", key=user_of))])
async def order(order: Order, user: User) -> dict[str, str]:
    """Order a report; a client that got no answer sends the order again with its Idempotency-Key."""
    job = await write_report.aenqueue(user, order.pages)
    return {"job": job.id}


@app.get("/reports/{id}/events")
async def events(id: str, user: User, request: Request, lw: WebLockwork) -> Response:
    """Send the progress of a report to its owner."""
    job = lw.job(id)
    snapshot = await job.ainspect()
    if not snapshot.args or snapshot.args[0] != user:  # unknown, or not kept, or of another user
        raise HTTPException(404)
    return await job_events(request, job)
