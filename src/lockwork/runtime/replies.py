"""What a server's error means for us: send the script, try again, or one clear error of ours."""

from __future__ import annotations

import redis
from redis.exceptions import AuthorizationError

from lockwork.errors import LockworkError, ServerRefused, ServerUnavailable, ServerUnsuitable

# The server is there but cannot serve just now; the same call will do later.
_PASSING = ("LOADING", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "NOREPLICAS", "UNBLOCKED")


class Retry(Exception):
    """The call may be sent again: the connection broke, or the server cannot serve just now."""


class NoScript(Exception):
    """The server does not know the script (any more); it must be sent in full."""


def raise_error(message: str, where: str, script: str) -> None:
    """Raise what an error reply means."""
    code = message.split(" ", 1)[0]
    if code == "NOSCRIPT":
        raise NoScript
    if code in _PASSING:
        raise Retry(f"the server at {where} answers {message!r}")
    if code == "READONLY" or "-READONLY" in message:
        raise ServerUnsuitable(read_only(where))
    if code == "OOM" or "OOM command not allowed" in message:
        raise ServerRefused(f"the server at {where} is out of memory and refuses writes: raise maxmemory or free keys")
    if code == "WRONGTYPE" or "WRONGTYPE" in message:
        raise ServerRefused(f"a key of ours at {where} holds somebody else's data ({script}): use another prefix")
    if code in ("NOAUTH", "WRONGPASS"):
        raise ServerRefused(f"the server at {where} wants a password ({message}): check the URL")
    if code == "NOPERM" or "NOPERM" in message:
        raise ServerRefused(f"the server at {where} does not let this user do that: {message}")
    raise ServerRefused(f"the server at {where} refused {script}: {message}")


def connecting(error: Exception, where: str) -> LockworkError | Retry:
    """Translate an error of the handshake."""
    # redis-py's asyncio side wraps what the server said
    while isinstance(error, redis.ConnectionError) and isinstance(error.__cause__, redis.RedisError):
        error = error.__cause__
    if isinstance(error, redis.AuthenticationError | AuthorizationError):
        return ServerRefused(f"the server at {where} refuses our user or password ({error}): check the URL")
    if isinstance(error, redis.BusyLoadingError | redis.ConnectionError | redis.TimeoutError | OSError):
        return Retry(f"no server answers at {where}: {error}")
    return ServerRefused(f"the server at {where} refuses the connection: {error}")


def gone(where: str, why: object, tried: float) -> ServerUnavailable:
    """The error for a call that could not be completed in time."""
    text = str(why).rstrip(".") or type(why).__name__
    return ServerUnavailable(f"gave up after {tried:.1f} s: {text}. Is the server at {where} running and reachable?")


def read_only(where: str) -> str:
    """The message for a read-only replica."""
    return f"the server at {where} is a read-only replica: connect to its primary"
