"""The lifespan of an app: opens, checks and closes its Lockwork object."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from starlette.requests import HTTPConnection

from lockwork.app.lockwork import Lockwork
from lockwork.errors import ConfigError

# parameter Any: the app's class is Starlette or FastAPI
Lifespan = Callable[[Any], AbstractAsyncContextManager[Mapping[str, Any]]]
_STATE = "lockwork"
"""The key of the Lockwork object in the state of a request."""


def lifespan(
    lw: Lockwork, inner: Callable[[Any], AbstractAsyncContextManager[Mapping[str, Any] | None]] | None = None
) -> Lifespan:
    """Return a lifespan for `FastAPI(lifespan=...)` or `Starlette(lifespan=...)`.

    At the start it connects, checks the server, and raises ServerUnavailable if the server does not answer within
    `patience`. At the end it closes all connections.

    Args:
        lw: the object that `get_lockwork` returns.
        inner: the app's own lifespan, which runs while `lw` is open. Default None.
    """

    @asynccontextmanager
    async def opened(app: Any) -> AsyncIterator[Mapping[str, Any]]:
        async with lw:
            await lw.aqueues()  # a call to the server, so that a wrong address fails the start
            state = {_STATE: lw}
            if inner is None:
                yield state
                return
            async with inner(app) as more:
                yield {**(more or {}), **state}

    return opened


def get_lockwork(connection: HTTPConnection) -> Lockwork:
    """Return the Lockwork object of the app's lifespan; for FastAPI, `Annotated[Lockwork, Depends(get_lockwork)]`.

    Takes a request or a WebSocket. Raises ConfigError if the app has no lifespan with a Lockwork object.
    """
    lw = connection.scope.get("state", {}).get(_STATE)
    if not isinstance(lw, Lockwork):
        raise ConfigError(
            "this request has no Lockwork object: start the app with lifespan=lifespan(lw), "
            "and a test with `with TestClient(app)`"
        )
    return lw
