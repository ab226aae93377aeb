"""Rate limits of requests: a dependency of FastAPI, and a decorator for endpoints of Starlette.

Answers have the fields RateLimit and RateLimit-Policy of draft-ietf-httpapi-ratelimit-headers-10.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from lockwork.contrib.starlette.lifespan import get_lockwork
from lockwork.durations import parsed
from lockwork.errors import ConfigError, RateLimited
from lockwork.introspection import shown
from lockwork.protocol.synchronizers.limiter import Algorithm

ClientKey = Callable[[Request], str | Awaitable[str | None] | None]
Endpoint = Callable[[Request], Any]


def rate_limit(
    rate: str,
    *,
    key: ClientKey | None = None,
    name: str | None = None,
    burst: int | None = None,
    algorithm: Algorithm = "bucket",
) -> Callable[[Request, Response], Awaitable[None]]:
    """Return a dependency, `Depends(rate_limit("10/m"))`, that answers 429 with Retry-After beyond the rate.

    All answers have RateLimit and RateLimit-Policy, except a response object that the endpoint makes itself.

    Args:
        rate: requests per time, such as "10/m".
        key: function of the request, `def` or `async def`; each result has a rate of its own, and a request whose
            result is None is not limited. Default: the address of the connection.
        name: names the limiter; endpoints with the same name share it. Default: the endpoint's function.
        burst: requests that may come at once. Default: those of the rate.
        algorithm: "bucket" (default) or "window"; see `Lockwork.limiter`.

    Raises ConfigError.
    """
    limit = RequestLimit(rate, key, name, burst, algorithm)

    async def check_rate(request: Request, response: Response) -> None:
        _append(response, await limit.take(request))

    return check_rate


def limited(
    rate: str,
    *,
    key: ClientKey | None = None,
    name: str | None = None,
    burst: int | None = None,
    algorithm: Algorithm = "bucket",
) -> Callable[[Endpoint], Callable[[Request], Awaitable[Response]]]:
    """Decorate an endpoint of Starlette, `def` or `async def`, with a limit; see `rate_limit` for the arguments."""
    limit = RequestLimit(rate, key, name, burst, algorithm)

    def decorate(endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
        @wraps(endpoint)
        async def answer(request: Request) -> Response:
            headers = await limit.take(request, endpoint)
            if inspect.iscoroutinefunction(endpoint):
                response: Response = await endpoint(request)
            else:
                response = await run_in_threadpool(endpoint, request)
            _append(response, headers)
            return response

        return answer

    return decorate


class RequestLimit:
    """A rate for each client of an endpoint."""

    def __init__(
        self, rate: str, key: ClientKey | None, name: str | None, burst: int | None, algorithm: Algorithm
    ) -> None:
        if not (key is None or callable(key)):
            raise ConfigError(f"key must be a function of the request, not {key!r:.60}")
        count, period = parsed(rate)
        quota = count if burst is None else burst
        self._rate = rate
        self._key = key
        self._name = name
        self._burst = burst
        self._algorithm: Algorithm = algorithm
        # the text of a structured field is ASCII
        self._policy = name if name is not None and _is_plain(name) else "default"
        self._fields = f'"{self._policy}";q={quota};w={max(1, math.ceil(quota * period / count / 1_000_000))}'

    async def take(self, request: Request, endpoint: object = None) -> dict[str, str]:
        """Take a unit, and return the headers of the answer; raises HTTPException with status 429."""
        client = await self._client(request)
        if client is None:
            return {}
        common = self._name or f"endpoint:{shown(endpoint or request.scope.get('endpoint'))}"
        limiter = get_lockwork(request).limiter(
            f"{common}:{client}", self._rate, burst=self._burst, algorithm=self._algorithm
        )
        try:
            await limiter.aacquire(wait=0)
        except RateLimited as error:
            after = max(1, math.ceil(error.retry_after))
            headers = {**self._headers(0, after), "Retry-After": str(after)}
            raise HTTPException(429, "Too many requests.", headers) from None
        status = await limiter.ainspect()
        return self._headers(status.available, math.ceil(status.full_in))

    async def _client(self, request: Request) -> str | None:
        if self._key is None:
            # a client can send any X-Forwarded-For: uvicorn reads it from the proxies of --forwarded-allow-ips
            return f"ip:{request.client.host if request.client else '-'}"
        value = self._key(request)
        return await value if inspect.isawaitable(value) else value

    def _headers(self, available: int, reset: int) -> dict[str, str]:
        return {"RateLimit": f'"{self._policy}";r={available};t={reset}', "RateLimit-Policy": self._fields}


def _append(response: Response, headers: dict[str, str]) -> None:
    for name, value in headers.items():
        response.headers.append(name, value)  # an endpoint may have several limits


def _is_plain(name: str) -> bool:
    return name.isascii() and name.isprintable() and not {'"', "\\"} & {*name}
