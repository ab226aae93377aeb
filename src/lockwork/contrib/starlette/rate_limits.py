"""Rate limits of requests: a dependency of FastAPI, and a decorator for endpoints of Starlette.

Answers have the fields RateLimit and RateLimit-Policy of draft-ietf-httpapi-ratelimit-headers-10.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import wraps
from typing import Any, ParamSpec

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from lockwork.contrib.starlette.lifespan import get_lockwork
from lockwork.durations import parsed
from lockwork.errors import ConfigError, RateLimited
from lockwork.introspection import shown
from lockwork.protocol.synchronizers.limiter import Algorithm
from lockwork.synchronizers.limiter import rates_of

ClientKey = Callable[[Request], str | Awaitable[str | None] | None]
P = ParamSpec("P")
Endpoint = Callable[P, Any]


def rate_limit(
    rate: str | Sequence[str],
    *,
    key: ClientKey | None = None,
    name: str | None = None,
    burst: int | None = None,
    algorithm: Algorithm = "bucket",
) -> Callable[[Request, Response], Awaitable[None]]:
    """Return a dependency, `Depends(rate_limit("10/m"))`, that answers 429 with Retry-After beyond the rate.

    All answers have RateLimit and RateLimit-Policy, except a response object that the endpoint makes itself.

    Args:
        rate: requests per time, such as "10/m"; or several, `["10/s", "1000/h"]`, which all hold.
        key: function of the request, `def` or `async def`; each result has a rate of its own, and a request whose
            result is None is not limited. Default: the address of the connection.
        name: names the limiter; limits with the same name share it, and need the same rate. Default: the endpoint's
            function, path, rate and key, so that an endpoint may have several limits.
        burst: requests that may come at once. Default: those of the rate.
        algorithm: "bucket" (default) or "window"; see `Lockwork.limiter`.

    Raises ConfigError.
    """
    limit = RequestLimit(rate, key, name, burst, algorithm)

    async def check_rate(request: Request, response: Response) -> None:
        _append(response, await limit.take(request))

    return check_rate


def limited(
    rate: str | Sequence[str],
    *,
    key: ClientKey | None = None,
    name: str | None = None,
    burst: int | None = None,
    algorithm: Algorithm = "bucket",
) -> Callable[[Endpoint[P]], Callable[P, Awaitable[Response]]]:
    """Decorate an endpoint of Starlette, a function or method, with a limit; see `rate_limit` for the arguments."""
    limit = RequestLimit(rate, key, name, burst, algorithm)

    def decorate(endpoint: Endpoint[P]) -> Callable[P, Awaitable[Response]]:
        @wraps(endpoint)
        async def answer(*args: P.args, **kwargs: P.kwargs) -> Response:
            headers = await limit.take(_request(endpoint, [*args, *kwargs.values()]), endpoint)
            if inspect.iscoroutinefunction(endpoint):
                response: Response = await endpoint(*args, **kwargs)
            else:
                response = await run_in_threadpool(endpoint, *args, **kwargs)
            _append(response, headers)
            return response

        return answer

    return decorate


def _request(endpoint: object, arguments: Iterable[object]) -> Request:
    for argument in arguments:
        if isinstance(argument, Request):
            return argument
    raise ConfigError(
        f"{shown(endpoint)} takes no request: @limited is for endpoints of Starlette, and "
        "dependencies=[Depends(rate_limit(...))] for those of FastAPI"
    )


class RequestLimit:
    """A rate for each client of an endpoint."""

    def __init__(
        self,
        rate: str | Sequence[str],
        key: ClientKey | None,
        name: str | None,
        burst: int | None,
        algorithm: Algorithm,
    ) -> None:
        if not (key is None or callable(key)):
            raise ConfigError(f"key must be a function of the request, not {key!r:.60}")
        rates = rates_of(rate, burst)
        first, *more = rates
        self._rate = rates if more else first
        self._key = key
        self._name = name
        self._burst = burst
        self._algorithm: Algorithm = algorithm
        # the text of a structured field is ASCII
        self._policy = name if name is not None and _is_plain(name) else "default"
        given_key = "" if key is None else shown(key)
        self._distinction = f"{', '.join(map(str, rates))}:{burst or ''}:{algorithm}:{given_key}"
        self._fields = ", ".join([self._field(at, *parsed(each), burst) for at, each in enumerate(rates, 1)])

    def _field(self, number: int, count: int, period: int, burst: int | None) -> str:
        policy = self._policy if number == 1 else f"{self._policy}-{number}"
        quota = count if burst is None else burst
        return f'"{policy}";q={quota};w={max(1, math.ceil(quota * period / count / 1_000_000))}'

    async def take(self, request: Request, endpoint: object = None) -> dict[str, str]:
        """Take a unit, and return the headers of the answer; raises HTTPException with status 429."""
        client = await self._client(request)
        if client is None:
            return {}
        name = self._name or self._name_of(request.scope, endpoint)
        limiter = get_lockwork(request).limiter(
            f"{name}:{client}", self._rate, burst=self._burst, algorithm=self._algorithm
        )
        try:
            await limiter.aacquire(wait=0)
        except RateLimited as error:
            after = max(1, math.ceil(error.retry_after))
            headers = {**self._headers(0, after), "Retry-After": str(after)}
            raise HTTPException(429, "Too many requests.", headers) from None
        status = await limiter.ainspect()
        return self._headers(status.available, math.ceil(status.full_in))

    def _name_of(self, scope: Scope, endpoint: object) -> str:
        # two functions of a module may have the same name, and an endpoint several limits
        path = getattr(scope.get("route"), "path", "")
        return f"endpoint:{shown(endpoint or scope.get('endpoint'))}:{path}:{self._distinction}"

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
