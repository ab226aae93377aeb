"""Server errors as actions: send the script, retry, or raise one clear error."""

from __future__ import annotations

import contextlib
import re
import sys
from types import TracebackType
from typing import NoReturn, TypeGuard

import hiredis

from lockwork import words
from lockwork.errors import LockworkError, ServerRefused, ServerUnavailable, ServerUnsuitable
from lockwork.runtime.tls import trouble

# The server is there but cannot serve now; the same call will succeed later.
_BUSY = ("BUSY", "TRYAGAIN")
# As above, but another server may have this address soon, or already has it.
_FAILOVER = ("LOADING", "CLUSTERDOWN", "NOREPLICAS", "UNBLOCKED")
# Replies of a replica.
_REPLICA = ("READONLY", "MASTERDOWN")
# If a script catches an error and raises it again, the error code follows the location in the script.
_RAISED_AGAIN = re.compile(r"user_(?:script|function): ?\d+: -?([A-Z]+) ")
_ADDRESS = re.compile(r"^Error \S+ connecting to .+?\. (?=\S)")
"""Prefix that redis-py puts before the reason; Lockwork names the server by its URL."""
_NO_DATABASE = re.compile("DB index|SELECT is not allowed")
_FORESEEN = (hiredis.HiredisError, OSError, EOFError)
_MODULES = frozenset({"builtins", "socket", "ssl"})
"""Modules whose subclasses of OSError a socket raises."""


def foreseen() -> tuple[type[Exception], ...]:
    """Return the exceptions that clients raise for an unreachable server or invalid replies."""
    if "redis" not in sys.modules:  # see handshake.py
        return _FORESEEN
    import redis  # noqa: PLC0415 - loaded already

    return (redis.RedisError, *_FORESEEN)


def is_interrupt(error: BaseException | None) -> bool:
    """Return True for an OSError that no socket raised: a job's time-out is raised in its thread at any instruction."""
    return isinstance(error, OSError) and type(error).__module__ not in _MODULES


class ignoring(contextlib.suppress):  # noqa: N801 - like contextlib's name
    """Suppress the errors of a socket, but no interrupt."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Return True to suppress the error."""
        return not is_interrupt(error) and super().__exit__(kind, error, trace)


class Retry(Exception):
    """The call may be retried: the connection broke, or the server cannot serve now."""

    sent: bool = True
    """True if the call may have reached the server and taken effect."""


class Failover(Retry):
    """The server cannot serve now, and another may replace it: close the connection and resolve the address again.

    A connection that outlives a failover would stay with the demoted server.
    """

    sent = False


class Demoted(Failover):
    """The server is a read-only replica."""


class Late(Retry):
    """A try received no answer within its time limit."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"{what} within {words.age(seconds)}")
        self.seconds = seconds


class Busy(Retry):
    """The server refused the call, and will accept it later."""

    sent = False


class Moved(Retry):
    """Another node of the Cluster serves the slot; with `once`, only for this call, because the slot is migrating."""

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
    """The server does not (or no longer) know the script, which must be sent in full."""


def passing(message: str) -> bool:
    """Return True for the error of a server that cannot serve now."""
    return message.split(" ", 1)[0] in (*_BUSY, *_FAILOVER, *_REPLICA)


def raise_error(message: str, where: str, script: str) -> NoReturn:
    """Raise the exception for an error reply."""
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
"""Error texts for missing permissions; the last is from Redis 6.2."""


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
    """Return the number of replicas that acknowledged, from the reply to WAIT; raise the exception for an error."""
    if isinstance(reply, hiredis.ReplyError):
        if "replica" in str(reply):  # the server was demoted between the write and the WAIT
            demoted = Demoted(f"the server at {where} answers {str(reply)!r}")
            demoted.sent = True  # the preceding call has taken effect
            raise demoted
        raise_error(str(reply), where, "WAIT")
    assert isinstance(reply, int)
    return reply


def raise_connecting(error: Exception, where: str) -> NoReturn:
    """Raise the exception for an error of the handshake."""
    if (problem := trouble(error, where)) is not None:
        raise ServerRefused(problem) from error
    if "redis" in sys.modules:
        error = _checked(error, where)
    if isinstance(error, foreseen()):
        raise Retry(f"no server answers at {where}: {_ADDRESS.sub('', str(error))}") from error
    # a password callback may fail for a moment, like a server
    raise Retry(f"connecting to {where} failed: {type(error).__name__}: {error}") from error


def _checked(error: Exception, where: str) -> Exception:
    """Raise ServerRefused if redis-py's error says that the server will refuse the next try, too; return the cause."""
    import redis  # noqa: PLC0415 - loaded already
    from redis import exceptions  # noqa: PLC0415 - loaded already

    # redis-py's asyncio side wraps the server's error, and errors of the app's password callback
    while isinstance(error, redis.ConnectionError) and _says_more(error.__cause__, redis.RedisError):
        error = error.__cause__
    if isinstance(error, redis.AuthenticationError | exceptions.AuthorizationError):
        raise ServerRefused(f"the server at {where} refuses our user or password ({error}): check the URL") from error
    if isinstance(error, redis.RedisError) and _NO_DATABASE.search(str(error)):
        raise ServerRefused(
            f"the server at {where} has no such database ({error}): correct the number after the last slash of the "
            "URL; a Cluster usually has database 0 alone, and needs no number"
        ) from error
    passing_errors = (
        redis.ConnectionError,
        redis.TimeoutError,
        redis.BusyLoadingError,
        exceptions.ClusterDownError,
        exceptions.MasterDownError,
        exceptions.ReadOnlyError,
        exceptions.TryAgainError,
    )
    if isinstance(error, redis.RedisError) and not isinstance(error, passing_errors):
        raise ServerRefused(f"the server at {where} refuses the connection: {error}") from error
    return error


def _says_more(cause: BaseException | None, redis_error: type[Exception]) -> TypeGuard[Exception]:
    return isinstance(cause, Exception) and (isinstance(cause, redis_error) or not isinstance(cause, foreseen()))


def unforeseen(error: object) -> Exception | None:
    """Return the underlying error that neither server nor network raises, if any; the log shows it."""
    while isinstance(error, LockworkError | Retry):
        error = error.__cause__
    return error if isinstance(error, Exception) and not isinstance(error, foreseen()) else None


def gone(where: str, why: object, tried: float) -> LockworkError:
    """Return the error for a call that could not be completed in time."""
    if isinstance(why, Demoted):
        return ServerUnsuitable(f"{read_only(where)} (for {words.age(tried)} by now)")
    text = f"gave up after {words.age(tried)}: {str(why).rstrip('.') or type(why).__name__}"
    if isinstance(why, Failover | Busy) or unforeseen(why) is not None:
        return ServerUnavailable(text)  # the server has answered, or its state is unknown
    server = "it" if where in text else f"the server at {where}"
    return ServerUnavailable(f"{text}. Is {server} running and reachable{_speaking(text, where)}?")


def _speaking(text: str, where: str) -> str:
    """Suggest a TLS mismatch: without TLS, a server waits for more bytes; with TLS, it disconnects."""
    if where.startswith("rediss"):
        return ", does it speak TLS there, and does it want a certificate of its clients (ssl_certfile=, ssl_keyfile=)"
    if not where.startswith("unix") and re.search(
        "reset by peer|closed by|broken pipe|connection lost", text, re.IGNORECASE
    ):
        return ", and is this not its port for TLS (rediss://)"
    return ""


def read_only(where: str) -> str:
    """Return the message for a read-only replica."""
    return f"the server at {where} is a read-only replica: connect to its primary"
