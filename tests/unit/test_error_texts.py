"""Errors: one root, and each says what happened and what to do."""

from __future__ import annotations

import re
import ssl
from importlib import import_module

import hiredis
import pytest
import redis

import lockwork
from lockwork import LockworkError, ServerRefused, ServerUnavailable, ServerUnsuitable
from lockwork.runtime.endpoint import Endpoint, check
from lockwork.runtime.replies import (
    Demoted,
    NoScript,
    Retry,
    gone,
    raise_connecting,
    raise_error,
    read_only,
    unforeseen,
)

WHERE = "redis://db:6379/0"


def test_errors_have_one_root_and_fitting_builtins() -> None:
    known = [getattr(lockwork, name) for name in lockwork.__all__]
    leaves = [value for value in known if isinstance(value, type) and issubclass(value, LockworkError)]
    assert len(leaves) > 12
    assert all(leaf.__doc__ for leaf in leaves)
    assert issubclass(lockwork.LockTimeout, TimeoutError)
    assert issubclass(lockwork.ResultTimeout, TimeoutError)
    assert issubclass(lockwork.ConfigError, ValueError)
    assert issubclass(lockwork.ServerUnavailable, ConnectionError)


def test_top_level_names_are_few() -> None:
    """At most 30; what needs only few callers is found in the module of its theme."""
    assert len(set(lockwork.__all__)) == len(lockwork.__all__) <= 30
    assert sorted(lockwork.__all__) == lockwork.__all__
    for module, names in {
        "errors": ["DeliveryOver", "JobCancelled", "JobExpired"],
        "injection": ["INJECTED", "Depends"],
        "backoff": ["Exponential"],
        "hooks": ["Enqueued", "Started", "Succeeded", "Failed", "Retrying", "Died", "Snoozed", "Cancelled", "Again"],
    }.items():
        assert all(hasattr(import_module(f"lockwork.{module}"), name) for name in names)


@pytest.mark.parametrize(
    ("reply", "kind", "parts"),
    [
        (
            "OOM command not allowed when used memory > 'maxmemory'.",
            ServerRefused,
            ["out of memory", "raise maxmemory"],
        ),
        ("WRONGTYPE Operation against a key", ServerRefused, ["data of another program", "prefix"]),
        ("ERR user_script:3: WRONGTYPE Operation", ServerRefused, ["data of another program", "prefix"]),
        ("NOPERM this user has no permissions", ServerRefused, ["does not let this user", "NOPERM"]),
        (
            "MISCONF Errors writing to the AOF file: No space left",
            ServerRefused,
            ["refused queue/push", "No space left"],
        ),
        ("ERR something new", ServerRefused, ["refused queue/push", "something new"]),
    ],
)
def test_error_reply_is_one_clear_error(reply: str, kind: type[Exception], parts: list[str]) -> None:
    with pytest.raises(kind) as caught:
        raise_error(reply, WHERE, "queue/push")
    for part in (WHERE, *parts):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    "reply",
    [
        "LOADING Valkey is loading the dataset in memory",
        "BUSY Valkey is busy running a script.",
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "CLUSTERDOWN The cluster is down",
        "MASTERDOWN Link with MASTER is down",
        "NOREPLICAS Not enough good replicas to write.",
        "ERR user_script:18: READONLY You can't write against a read only replica. script: on @user_script:18.",
        "ERR Error running script (call to f_1): @user_script:18: @user_script: 18: -READONLY You can't write.",
    ],
)
def test_transient_errors_are_retried(reply: str) -> None:
    with pytest.raises(Retry):
        raise_error(reply, WHERE, "queue/push")


def test_unknown_script_is_sent_in_full() -> None:
    with pytest.raises(NoScript):
        raise_error("NOSCRIPT No matching script.", WHERE, "queue/push")


def test_failed_handshake_is_refused_or_retried() -> None:
    with pytest.raises(ServerRefused, match="password.*check the URL"):
        raise_connecting(redis.AuthenticationError("WRONGPASS invalid username-password pair"), WHERE)
    with pytest.raises(ServerRefused, match="refuses the connection: odd"):
        raise_connecting(redis.ResponseError("odd"), WHERE)
    for error in (
        ConnectionRefusedError(111, "refused"),
        redis.ConnectionError("gone"),
        redis.TimeoutError("slow"),
        redis.BusyLoadingError("loading"),
        EOFError("cut off"),
    ):
        with pytest.raises(Retry, match="no server answers") as caught:
            raise_connecting(error, WHERE)
        assert unforeseen(caught.value) is None


def test_broken_handshake_names_its_cause() -> None:
    wrapped = redis.ConnectionError("as redis-py has it")
    wrapped.__cause__ = fault = ZeroDivisionError("a fault of theirs")
    for error in (fault, wrapped):
        with pytest.raises(Retry) as caught:
            raise_connecting(error, WHERE)
        assert unforeseen(caught.value) is fault
        text = str(gone(WHERE, caught.value, 10.04))
        assert text == f"gave up after 10.0 s: connecting to {WHERE} failed: ZeroDivisionError: a fault of theirs"


def of_tls(reason: str, code: int = 0) -> Exception:
    """Return an error of OpenSSL in redis-py's wrapping."""
    cause = ssl.SSLCertVerificationError(1, "bad") if code else ssl.SSLError(1, "bad")
    cause.reason, cause.library = reason, "SSL"
    if isinstance(cause, ssl.SSLCertVerificationError):
        cause.verify_code, cause.verify_message = code, "why"
    error = redis.ConnectionError("as redis-py has it")
    error.__context__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (of_tls("CERTIFICATE_VERIFY_FAILED", 19), "not signed by an authority that we trust (why)"),
        (of_tls("CERTIFICATE_VERIFY_FAILED", 62), "is for another host (why)"),
        (of_tls("CERTIFICATE_VERIFY_FAILED", 10), "is not valid now (why)"),
        (of_tls("TLSV13_ALERT_CERTIFICATE_REQUIRED"), "does not accept our certificate"),
        (of_tls("TLSV1_ALERT_UNKNOWN_CA"), "does not accept our certificate"),
        (of_tls("WRONG_VERSION_NUMBER"), "does not speak TLS"),
    ],
)
def test_certificate_errors_are_not_retried(error: Exception, says: str) -> None:
    with pytest.raises(ServerRefused, match=re.escape(says)):
        raise_connecting(error, "rediss://db:6379/0")


def test_broken_tls_connection_is_retried() -> None:
    with pytest.raises(Retry) as caught:
        raise_connecting(of_tls("UNEXPECTED_EOF_WHILE_READING"), "rediss://db:6379/0")
    assert "does it speak TLS there" in str(gone("rediss://db:6379/0", caught.value, 1.0))


def test_final_error_for_a_replica_names_it_as_a_replica() -> None:
    for reply in ("READONLY You can't write against a read only replica.", "MASTERDOWN Link with MASTER is down"):
        with pytest.raises(Demoted) as caught:
            raise_error(reply, WHERE, "queue/push")
        error = gone(WHERE, caught.value, 10.04)
        assert isinstance(error, ServerUnsuitable)
        assert str(error) == f"the server at {WHERE} is a read-only replica: connect to its primary (for 10.0 s by now)"


def test_final_error_names_the_duration_and_the_cause() -> None:
    error = gone(WHERE, TimeoutError(), 10.04)
    assert isinstance(error, ServerUnavailable)
    assert str(error) == f"gave up after 10.0 s: TimeoutError. Is the server at {WHERE} running and reachable?"


def info(**facts: object) -> list[object]:
    """Return the replies to a new connection."""
    return ["".join(f"{name}:{value}\r\n" for name, value in {"run_id": "a1", **facts}.items()).encode(), 7, 0]


@pytest.mark.parametrize("version", ["6.2.0", "6.2.14", "7.0.15", "7.2.4", "8.2.3", "10.0.0", "unstable", ""])
def test_versions_that_will_do(version: str) -> None:
    check(info(redis_version=version, role="master"), Endpoint.from_url(WHERE), allow_eviction=False)


@pytest.mark.parametrize("version", ["6.0.16", "5.0.7", "2.8.24", "6.1.240"])
def test_versions_that_are_too_old(version: str) -> None:
    with pytest.raises(ServerUnsuitable, match=rf"is version {version}: use Redis 6\.2 or later, or Valkey"):
        check(info(redis_version=version), Endpoint.from_url(WHERE), allow_eviction=False)


def test_read_only_replica_is_refused() -> None:
    with pytest.raises(Demoted) as caught:
        check(
            info(redis_version="7.2.4", role="slave", slave_read_only=1), Endpoint.from_url(WHERE), allow_eviction=False
        )
    assert read_only(WHERE) in str(caught.value)
    check(info(redis_version="7.2.4", role="slave", slave_read_only=0), Endpoint.from_url(WHERE), allow_eviction=False)


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-lru", "volatile-ttl", "allkeys-random"])
def test_server_that_evicts_is_refused(policy: str) -> None:
    facts = info(redis_version="7.2.4", maxmemory_policy=policy)
    with pytest.raises(ServerUnsuitable, match=f"maxmemory-policy {policy}.*set it to noeviction"):
        check(facts, Endpoint.from_url(WHERE), allow_eviction=False)
    check(facts, Endpoint.from_url(WHERE), allow_eviction=True)


def test_info_reply_without_fields_is_accepted() -> None:
    check([b"# Server\r\n\r\ngarbage\r\n\xff\xfe", 7, 0], Endpoint.from_url(WHERE), allow_eviction=False)


def test_busy_server_is_retried() -> None:
    with pytest.raises(Retry, match="BUSY"):
        check([hiredis.ReplyError("BUSY a script runs"), 7, 0], Endpoint.from_url(WHERE), allow_eviction=False)
