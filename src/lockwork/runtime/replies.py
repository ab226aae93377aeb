"""What a server's error means for us: send the script, try again, or one clear error of ours."""

from __future__ import annotations

import re
from typing import NoReturn, TypeGuard

import hiredis
import redis
from redis.exceptions import (
    AuthorizationError,
    ClusterDownError,
    MasterDownError,
    ReadOnlyError,
    TryAgainError,
)

from lockwork.errors import LockworkError, ServerRefused, ServerUnavailable, ServerUnsuitable
from lockwork.runtime.tls import trouble

# The server is there but cannot serve just now; the same call will do later.
_BUSY = ("BUSY", "TRYAGAIN")
# The same, but another server may stand at this address soon, or does already.
_FAILOVER = ("LOADING", "CLUSTERDOWN", "NOREPLICAS", "UNBLOCKED")
# A replica says this.
_REPLICA = ("READONLY", "MASTERDOWN")
# What a script raises again, after it has caught it, has its code behind the place in the script.
_RAISED_AGAIN = re.compile(r"user_script: ?\d+: -?([A-Z]+) ")
_ADDRESS = re.compile(r"^Error \S+ connecting to .+?\. (?=\S)")
"""What redis-py puts before the reason; we name the server by its URL."""
_NO_DATABASE = re.compile("DB index|SELECT is not allowed")
# What a server that is away, or talks nonsense, makes its clients raise.
FORESEEN = (redis.RedisError, hiredis.HiredisError, OSError, EOFError)
# What redis-py makes of such answers when they come during the handshake.
_PASSING = (
    redis.ConnectionError,
    redis.TimeoutError,
    redis.BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    ReadOnlyError,
    TryAgainError,
)


class Retry(Exception):
    """The call may be sent again: the connection broke, or the server cannot serve just now."""

    sent: bool = True
    """Whether the call may have reached the server, and taken effect."""


class Failover(Retry):
    """The server cannot serve now, and another may take its place: the connection is closed, the address resolved anew.

    A connection that outlives a failover leads to the demoted server for ever.
    """

    sent = False


class Demoted(Failover):
    """The server is a read-only replica."""


class Late(Retry):
    """A try had no answer in the seconds that it was given."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"{what} within {seconds:.1f} s")
        self.seconds = seconds


class Busy(Retry):
    """The server has refused the call, and will take it later."""

    sent = False


class Moved(Retry):
    """Another node of the Cluster serves the slot; with `once` only this call is for it: the slot is under way."""

    sent = False

    def __init__(self, message: str) -> None:
        super().__init__(f"a node of the Cluster answers {message!r}")
        code, number, place = message.split(" ")[:3]
        self.once: bool = code == "ASK"
        self.slot: int = int(number)
        host, _, port = place.rpartition(":")
        self.host: str = host
        self.port: int = int(port)


class NoScript(Exception):
    """The server does not know the script (any more); it must be sent in full."""


def passing(message: str) -> bool:
    """Whether it is the error of a server that cannot serve just now."""
    return message.split(" ", 1)[0] in (*_BUSY, *_FAILOVER, *_REPLICA)


def raise_error(message: str, where: str, script: str) -> None:
    """Raise what an error reply means."""
    code = message.split(" ", 1)[0]
    if code == "ERR" and (inside := _RAISED_AGAIN.search(message)):
        code = inside[1]
    if code == "NOSCRIPT":
        raise NoScript
    if code in ("MOVED", "ASK"):
        raise Moved(message)
    if code in _REPLICA or "-READONLY" in message:
        raise Demoted(f"the server at {where} answers {message!r}")
    if code in _FAILOVER:
        raise Failover(f"the server at {where} answers {message!r}")
    if code in _BUSY:
        raise Busy(f"the server at {where} answers {message!r}")
    raise _refused(code, message, where, script)


_NO_RIGHTS = ("NOPERM", "ACL failure in script", "The user executing the script can't run this command")
"""What servers say when a user lacks a right; the last is of Redis 6.2."""


def _refused(code: str, message: str, where: str, script: str) -> ServerRefused:
    if code == "OOM" or "OOM command not allowed" in message:
        return ServerRefused(f"the server at {where} is out of memory and refuses writes: raise maxmemory or free keys")
    if code == "WRONGTYPE" or "WRONGTYPE" in message:
        return ServerRefused(
            f"a Lockwork key at {where} contains data of another program ({script}): use another prefix"
        )
    if code in ("NOAUTH", "WRONGPASS"):
        return ServerRefused(f"the server at {where} wants a password ({message}): check the URL")
    if any(words in f"{code} {message}" for words in _NO_RIGHTS):
        return ServerRefused(f"the server at {where} does not let this user do that: {message}")
    return ServerRefused(f"the server at {where} refused {script}: {message}")


def acknowledged(reply: object, where: str) -> int:
    """How many replicas have what was written, as WAIT says; raises what its error means."""
    if isinstance(reply, hiredis.ReplyError):
        if "replica" in str(reply):  # it was demoted between the write and this
            demoted = Demoted(f"the server at {where} answers {str(reply)!r}")
            demoted.sent = True  # the call before it has taken effect
            raise demoted
        raise_error(str(reply), where, "WAIT")
    assert isinstance(reply, int)
    return reply


def raise_connecting(error: Exception, where: str) -> NoReturn:
    """Raise what an error of the handshake means."""
    if (problem := trouble(error, where)) is not None:
        raise ServerRefused(problem) from error
    # redis-py's asyncio side wraps what the server said, and what the app's own source of passwords raised
    while isinstance(error, redis.ConnectionError) and _says_more(error.__cause__):
        error = error.__cause__
    if isinstance(error, redis.AuthenticationError | AuthorizationError):
        raise ServerRefused(f"the server at {where} refuses our user or password ({error}): check the URL") from error
    if isinstance(error, redis.RedisError) and _NO_DATABASE.search(str(error)):
        raise ServerRefused(
            f"the server at {where} has no such database ({error}): correct the number after the last slash of the "
            "URL; a Cluster usually has database 0 alone, and needs no number"
        ) from error
    if isinstance(error, redis.RedisError) and not isinstance(error, _PASSING):
        raise ServerRefused(f"the server at {where} refuses the connection: {error}") from error
    if isinstance(error, FORESEEN):
        raise Retry(f"no server answers at {where}: {_ADDRESS.sub('', str(error))}") from error
    # such a source may be out of order for a moment, as a server may
    raise Retry(f"connecting to {where} failed: {type(error).__name__}: {error}") from error


def _says_more(cause: BaseException | None) -> TypeGuard[Exception]:
    return isinstance(cause, Exception) and (isinstance(cause, redis.RedisError) or not isinstance(cause, FORESEEN))


def unforeseen(error: object) -> Exception | None:
    """The error of a kind that neither server nor network raises which is behind this one, for a log that shows it."""
    while isinstance(error, LockworkError | Retry):
        error = error.__cause__
    return error if isinstance(error, Exception) and not isinstance(error, FORESEEN) else None


def gone(where: str, why: object, tried: float) -> LockworkError:
    """The error for a call that could not be completed in time."""
    if isinstance(why, Demoted):
        return ServerUnsuitable(f"{read_only(where)} (for {tried:.1f} s by now)")
    text = f"gave up after {tried:.1f} s: {str(why).rstrip('.') or type(why).__name__}"
    if isinstance(why, Failover | Busy) or unforeseen(why) is not None:
        return ServerUnavailable(text)  # the server has answered, or may be there or not
    server = "it" if where in text else f"the server at {where}"
    return ServerUnavailable(f"{text}. Is {server} running and reachable{_speaking(text, where)}?")


def _speaking(text: str, where: str) -> str:
    """What else may be wrong: a server without TLS waits for the rest of a command, and one with TLS hangs up."""
    if where.startswith("rediss"):
        return ", does it speak TLS there, and does it want a certificate of its clients (ssl_certfile=, ssl_keyfile=)"
    if not where.startswith("unix") and re.search(
        "reset by peer|closed by|broken pipe|connection lost", text, re.IGNORECASE
    ):
        return ", and is this not its port for TLS (rediss://)"
    return ""


def read_only(where: str) -> str:
    """The message for a read-only replica."""
    return f"the server at {where} is a read-only replica: connect to its primary"
