"""Rate limits of views: `@limited("10/m")`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial, wraps
from typing import Any, Literal, TypeVar, cast

from django.http import HttpRequest, HttpResponse, HttpResponseBase

from lockwork.contrib.django.app import project_app
from lockwork.errors import ConfigError, RateLimited
from lockwork.introspection import shown
from lockwork.protocol.synchronizers.limiter import Algorithm
from lockwork.synchronizers.limiter import Limiter, rates_of

View = TypeVar("View", bound=Callable[..., HttpResponseBase | Awaitable[HttpResponseBase]])
Key = Literal["ip", "user"] | Callable[[HttpRequest], str | None]


def limited(
    rate: str | Sequence[str],
    *,
    key: Key = "ip",
    name: str | None = None,
    burst: int | None = None,
    algorithm: Algorithm = "bucket",
) -> Callable[[View], View]:
    """Decorate a view, `def` or `async def`, so that it answers 429 with Retry-After beyond the rate.

    Args:
        rate: requests per time, such as "10/m"; or several, `["10/s", "1000/h"]`, which all hold.
        key: each value has a rate of its own: "ip" (default), the address of the connection; "user", the user, or the
            address of one who is not logged in; or a function of the request. A request whose key is None is not
            limited.
        name: names the limiter; limits with the same name share it, and need the same rate. Default: the view's
            function or class, rate and key, so that a view may have several limits.
        burst: requests that may come at once. Default: those of the rate.
        algorithm: "bucket" (default) or "window"; see `Lockwork.limiter`.

    Raises ConfigError.
    """
    rates = rates_of(rate, burst)
    if not (key in ("ip", "user") or callable(key)):
        raise ConfigError(f'key must be "ip", "user" or a function of the request, not {key!r:.60}')

    def decorate(view: View) -> View:
        given_key = key if isinstance(key, str) else shown(key)
        common = name or f"view:{_name_of(view)}:{', '.join(map(str, rates))}:{burst or ''}:{algorithm}:{given_key}"

        def limiter(value: str) -> Limiter:
            return project_app().limiter(f"{common}:{value}", rate, burst=burst, algorithm=algorithm)

        @wraps(view)
        def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            value = _of_user(request) if key == "user" else _value(key, request)
            if value is not None:
                try:
                    limiter(value).acquire(wait=0)
                except RateLimited as error:
                    return _too_many(error)
            return view(request, *args, **kwargs)

        @wraps(view)
        async def aanswer(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            value = await _aof_user(request) if key == "user" else _value(key, request)
            if value is not None:
                try:
                    await limiter(value).aacquire(wait=0)
                except RateLimited as error:
                    return _too_many(error)
            return await cast("Awaitable[Any]", view(request, *args, **kwargs))

        return cast("View", aanswer if inspect.iscoroutinefunction(view) else answer)

    return decorate


def _name_of(view: object) -> str:
    """Return the name of a view; that of its class if `as_view()` or `method_decorator` made the function."""
    made: Any = view
    while made is not None:
        if (view_class := getattr(made, "view_class", None)) is not None:
            return shown(view_class)
        if isinstance(made, partial) and (owner := getattr(made.func, "__self__", None)) is not None:
            return f"{shown(type(owner))}.{made.func.__name__}"
        made = getattr(made, "__wrapped__", None)
    return shown(view)


def _value(key: Key, request: HttpRequest) -> str | None:
    return key(request) if callable(key) else _address(request)


def _address(request: HttpRequest) -> str:
    # a client can send any X-Forwarded-For: behind a proxy, a function reads the header that the proxy sets
    return f"ip:{request.META.get('REMOTE_ADDR') or '-'}"


def _of_user(request: HttpRequest) -> str:
    return _user_or_address(getattr(request, "user", None), request)


async def _aof_user(request: HttpRequest) -> str:
    auser = getattr(request, "auser", None)
    return _user_or_address(None if auser is None else await auser(), request)


def _user_or_address(user: Any, request: HttpRequest) -> str:
    return f"user:{user.pk}" if user is not None and user.is_authenticated else _address(request)


def _too_many(error: RateLimited) -> HttpResponse:
    after = str(max(1, math.ceil(error.retry_after)))
    return HttpResponse("Too many requests.\n", status=429, content_type="text/plain", headers={"Retry-After": after})
