"""Checks of the rarer job options, and pauses between attempts; no test connects to a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockwork import ConfigError, Lockwork, backoff
from lockwork.backoff import Exponential
from lockwork.errors import JobCancelled
from lockwork.hooks import Again
from lockwork.jobs import options as job_options
from lockwork.jobs.current import is_failure
from lockwork.jobs.options import RunOptions


@pytest.fixture
def app() -> Iterator[Lockwork]:
    with Lockwork("redis://127.0.0.1:1", patience=0) as lw:
        yield lw


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("at", datetime(2026, 11, 21), "at must be a datetime with a zone"),  # noqa: DTZ001 - what is refused
        ("at", "tomorrow", "at must be a datetime, not 'tomorrow'"),
        ("at", datetime(1960, 1, 1, tzinfo=UTC), "after 1970"),
        ("at", datetime(9000, 1, 1, tzinfo=UTC), "at most 366 days from now"),
        ("expires", datetime(2026, 11, 21), "expires must be a datetime with a zone"),  # noqa: DTZ001 - what is refused
        ("expires", 0, "expires must be more than 0"),
        ("retries", -1, "retries must be a whole number from 0 to 1,000"),
        ("max_deliveries", 0, "max_deliveries must be a whole number from 1 to 1,000"),
        ("backoff", [], "backoff is an empty list: it needs at least one pause"),
        ("backoff", ["soon"], "backoff must be seconds"),
        ("backoff", lambda attempt: attempt, "a backoff function cannot travel"),
        ("backoff", ValueError, "backoff must be seconds"),
        ("retry_on", "ValueError", "retry_on must be exception classes"),
        ("retry_on", [ValueError("x")], "retry_on must be exception classes"),
        ("give_up_on", int, "give_up_on must be exception classes"),
        ("timeout", 0, "timeout must be more than 0"),
        ("tags", "news", "tags must be a list of texts"),
        ("tags", [""], "a tag must be text"),
        ("tags", [1], "a tag must be text"),
        ("result_ttl", -1, "result_ttl must be between 0"),
    ],
)
def test_wrong_option_of_a_job_is_refused(app: Lockwork, option: str, value: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        app.task(print).options(**{option: value})


def test_job_that_expires_before_its_start_is_refused(app: Lockwork) -> None:
    when = datetime.now(UTC) + timedelta(hours=1)
    task = app.task(print)
    brief = app.task(name="brief", expires="1m")(print)
    refusals: list[Callable[[], object]] = [
        lambda: task.options(delay="1h", expires="1m"),
        lambda: task.options(delay="1h").options(expires="1h"),
        lambda: task.options(at=when, expires=when - timedelta(minutes=1)),
        lambda: brief.options(delay="1h"),
    ]
    for refused in refusals:
        with pytest.raises(ConfigError, match="would expire before it may start.*: pass a later expires, or None"):
            refused()
    task.options(delay="1m", expires="1h")
    task.options(at=when, expires=when + timedelta(seconds=1))
    task.options(expires="1m")
    brief.options(delay="1h", expires=None)
    # their order is known at the enqueue
    task.options(at=when, expires="1m")
    task.options(delay="2h", expires=when)


def test_delay_and_moment_together_are_refused(app: Lockwork) -> None:
    when = datetime.now(UTC) + timedelta(hours=1)
    with pytest.raises(ConfigError, match="pass delay or at, not both"):
        app.task(print).options(delay=1, at=when)
    assert app.task(print).options(at=when).call().delay_ms == -int(when.timestamp() * 1000)


def test_options_add_up(app: Lockwork) -> None:
    task = app.task(name="t")(print).options(tags=["a"]).options(timeout=1).options(delay=1).options(priority="low")
    assert task.call().record == b'2,4,,;["t",[],{},{"tags":["a"],"timeout":1.0}]'
    assert task.call().delay_ms == 1000


def test_single_job_can_unset_options_of_its_task(app: Lockwork) -> None:
    made = app.task(name="t", retries=2, max_deliveries=9, retry_on=OSError, result_ttl="1h", tags=["a"])(print)
    changed = made.options(max_deliveries=None, retry_on=None, result_ttl=None, tags=[])
    options = job_options.carried(
        msgspec.json.decode(changed.call().record.partition(b";")[2])[3], made.options_in_force
    )
    assert changed.call().record.startswith(b"1,3,")
    assert (options.retry_on, options.result_ms, options.tags, options.retries) == (None, 0, (), 2)
    again = changed.options(retries=7).call().record
    assert again.startswith(b"1,8,")
    assert made.options(retries=7).call().record.startswith(b"1,8/9,")


def test_last_pause_setting_counts(app: Lockwork) -> None:
    task = app.task(print).options(backoff=["1s", "2s"]).options(backoff="5s")
    extra = msgspec.json.decode(task.call().record.partition(b";")[2])[3]
    assert job_options.carried(extra, RunOptions()).backoff == 5.0


@pytest.mark.parametrize(("wrong", "right"), [("factr", "factor"), ("jitr", "jitter")])
def test_growth_is_checked(wrong: str, right: str) -> None:
    with pytest.raises(TypeError, match=f"{wrong}.*Did you mean '{right}'|unexpected keyword argument"):
        Exponential(**{wrong: 1})
    odd: list[dict[str, Any]] = [{"factor": "2"}, {"factor": None}, {"factor": True}, {"jitter": "much"}]
    for bad in (*odd, {"factor": 0.5}, {"jitter": 2}, {"jitter": -1}, {"base": "x"}, {"longest": -1}):
        with pytest.raises(ConfigError):
            Exponential(**bad)


@given(
    attempt=st.integers(1, 10_000),
    base=st.floats(0, 100),
    factor=st.floats(1, 10),
    jitter=st.floats(0, 1),
    longest=st.floats(0, 1000),
)
def test_pause_is_within_its_bounds(attempt: int, base: float, factor: float, jitter: float, longest: float) -> None:
    drawn = backoff.pause(attempt, Exponential(base, factor, longest, jitter))
    full = min(longest, base * factor ** min(attempt - 1, 100))
    assert full * (1 - jitter) * 0.999999 <= drawn <= full * 1.000001


def test_last_pause_of_a_list_repeats() -> None:
    policy = backoff.read(["1s", 5, "1m"])
    assert [backoff.pause(attempt, policy) for attempt in (1, 2, 3, 4, 99)] == [1, 5, 60, 60, 60]


def test_delay_function_is_called_for_each_attempt() -> None:
    assert backoff.pause(7, lambda attempt: f"{attempt}s") == 7
    with pytest.raises(ConfigError, match="the result of the backoff function"):
        backoff.pause(1, lambda _: -1)


def test_retry_on_and_give_up_on_select_errors() -> None:
    some = job_options.read({"retry_on": OSError, "give_up_on": [FileNotFoundError]}, RunOptions())
    assert some.again(ConnectionError())
    assert not some.again(FileNotFoundError())
    assert not some.again(ValueError())
    assert RunOptions().again(BaseException())


class _Interrupted(ExceptionGroup[Exception]):
    pass


_RESET, _MISSING, _WRONG = ConnectionResetError(), FileNotFoundError(), ValueError()
_RETRY, _SNOOZE = Again(None, counted=True), Again(1, counted=False)


@pytest.mark.parametrize(
    ("group", "again"),
    [
        (ExceptionGroup("", [_RESET, _RESET]), True),
        (ExceptionGroup("", [_RESET, _WRONG]), False),
        (ExceptionGroup("", [_RESET, ExceptionGroup("", [_RESET, _MISSING])]), False),
        (ExceptionGroup("", [ExceptionGroup("", [_RESET]), _RESET]), True),
        (_Interrupted("", [_WRONG]), True),
        (_Interrupted("", [_MISSING]), False),
        (ExceptionGroup("", [_RESET, _Interrupted("", [_WRONG])]), True),
        (BaseExceptionGroup("", [_RETRY, _RESET]), True),
        (BaseExceptionGroup("", [_SNOOZE, _WRONG]), False),
    ],
)
def test_group_is_retried_if_all_its_errors_are_and_none_gives_up(
    group: BaseExceptionGroup[BaseException], again: bool
) -> None:
    some = job_options.read({"retry_on": (OSError, _Interrupted), "give_up_on": FileNotFoundError}, RunOptions())
    assert some.again(group) is again


def test_class_of_a_group_itself_decides() -> None:
    group = ExceptionGroup("", [ValueError()])
    assert job_options.read({"retry_on": Exception}, RunOptions()).again(group)
    assert not job_options.read({"give_up_on": ExceptionGroup}, RunOptions()).again(group)
    assert not job_options.read({"retry_on": Exception}, RunOptions()).again(BaseExceptionGroup("", [SystemExit()]))


def test_deeply_nested_group_is_read() -> None:
    group: ExceptionGroup[Exception] = ExceptionGroup("", [FileNotFoundError()])
    for _ in range(5000):
        group = ExceptionGroup("", [group])
    assert not job_options.read({"give_up_on": FileNotFoundError}, RunOptions()).again(group)
    assert job_options.read({"retry_on": FileNotFoundError}, RunOptions()).again(group)


@pytest.mark.parametrize(
    ("error", "failed"),
    [
        (BaseExceptionGroup("", [_RETRY]), True),
        (BaseExceptionGroup("", [_SNOOZE]), False),
        (BaseExceptionGroup("", [_SNOOZE, _WRONG]), True),
        (ExceptionGroup("", [JobCancelled("")]), False),
    ],
)
def test_tracing_sees_whether_a_group_is_a_failure(error: BaseException, failed: bool) -> None:
    assert is_failure(error) is failed


@given(
    pauses=st.one_of(st.floats(0, 9), st.lists(st.floats(0, 9), min_size=1, max_size=3)),
    timeout=st.one_of(st.none(), st.floats(0.1, 9)),
)
def test_options_survive_encoding(pauses: Any, timeout: float | None) -> None:
    changes = {"max_deliveries": 3, "retries": 5, "backoff": pauses, "timeout": timeout, "retry_on": OSError}
    options = job_options.read(changes, RunOptions())
    extra = msgspec.json.decode(msgspec.json.encode(job_options.sent(changes, options)))
    arrived = job_options.carried(extra, RunOptions())
    for name in ("backoff", "timeout", "retry_on"):
        assert getattr(arrived, name) == getattr(options, name)
