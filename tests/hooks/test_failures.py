"""Errors of jobs: stored as data, and rebuilt as the original class if the class is registered."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from lockwork import ConfigError, JobFailed, Lockwork
from lockwork.failures import Errors, Failure
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.schedules.schedules import Ticker

Load = Callable[[str], Any]


@pytest.mark.parametrize("task", ["fails", "fails_in_a_thread"])
def test_registered_error_is_raised_by_result(app: Load, work: Any, task: str) -> None:
    failing = app("failing")
    with work("failing"):
        with pytest.raises(failing.OutOfStock, match="^phone: only 2 left$") as caught:
            getattr(failing, task).enqueue("out").result(30)
        assert (caught.value.sku, caught.value.left) == ("phone", 2)
        assert caught.value.since.year == 2026
        # the traceback of the worker is still available
        cause = caught.value.__cause__
        assert isinstance(cause, JobFailed)
        assert "in make" in cause.traceback or "raise make(what)" in cause.traceback
        with pytest.raises(failing.Refused) as refused:
            getattr(failing, task).enqueue("refused").result(30)
        assert refused.value.args == ("card", 7)
        with pytest.raises(failing.Refused) as noted:
            getattr(failing, task).enqueue("noted").result(30)
        assert noted.value.args == ("card", 7)


def test_unregistered_errors_are_raised_as_job_failed(app: Load, work: Any) -> None:
    """Also errors with a registered parent or name, and errors whose arguments cannot be encoded."""
    failing = app("failing")
    with work("failing"):
        for what, type_name, text in [
            ("stranger", "Stranger", "who?"),
            ("child", "VeryOut", "phone: only 1 left"),
            ("namesake", "OutOfStock", "another one of this name"),
            ("builtin", "ValueError", "bad"),
            ("object", "Holds", "it holds something"),
            ("long", "Holds", "it holds something"),
            ("tree", "ExceptionGroup", "several (2 sub-exceptions)"),
        ]:
            job = failing.fails.enqueue(what)
            with pytest.raises(JobFailed) as caught:
                job.result(30)
            assert (caught.value.type, caught.value.text) == (type_name, text)
            assert str(caught.value) == f"job {job.id} in queue 'default' failed: {type_name}: {text}"
            assert "raise make(what)" in caught.value.traceback
            assert caught.value.__cause__ is None
        with pytest.raises(JobFailed) as caught:
            failing.fails.enqueue("long name").result(30)
        assert caught.value.type == "N" * 200


async def test_other_app_without_the_class_raises_job_failed(app: Load, work: Any, own_url: str) -> None:
    failing = app("failing")
    with work("failing"):
        job = await failing.fails.aenqueue("out")
        with pytest.raises(failing.OutOfStock):
            await job.aresult(30)
        with pytest.raises(failing.OutOfStock):
            await failing.lw.job(job.id).aresult(30)
        async with Lockwork(own_url) as other:
            with pytest.raises(JobFailed) as caught:
                await other.job(job.id).aresult(30)
            assert caught.value.type == "OutOfStock"
        await failing.lw.aclose()


def test_job_handles_raise_the_registered_error(app: Load, work: Any) -> None:
    """Also handles of flows, schedules, and jobs enqueued with the release of a lock."""
    failing = app("failing")
    lw = failing.lw
    run = lw.group([failing.fails.call("out"), failing.fails.call("refused")]).enqueue()
    schedule = lw.schedule(failing.fails.call("out"), name="hourly", every="1h")
    lw.runtime.run(Ticker(QueueKeys("lw", "default"), list(lw.plans["default"].values())).turn())
    scheduled = schedule.run_now()
    together = lw.queue().lock("order").acquire().release_and_enqueue(failing.fails.call("out"))
    with work("failing"):
        for job in (run.job(1), lw.flow(id=run.id).job(1), run.jobs()[0], scheduled, together):
            with pytest.raises(failing.OutOfStock):
                job.result(30)
        with pytest.raises(failing.Refused):
            run.job(2).result(30)
        with pytest.raises(JobFailed, match="OutOfStock|Refused"):
            run.result(30)


def test_job_failed_can_be_pickled() -> None:
    failed = JobFailed("job 1 failed", "ValueError", "bad", "Traceback ...")
    copy = pickle.loads(pickle.dumps(failed))
    assert (str(copy), copy.type, copy.text, copy.traceback) == ("job 1 failed", "ValueError", "bad", "Traceback ...")


class Known(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


class Ran(Exception):
    """Counts the calls of its `__init__`."""

    ran = 0

    def __init__(self, *args: object) -> None:
        Ran.ran += 1
        super().__init__(*args)


class Texted(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return self.text.upper()


def test_stored_error_is_rebuilt() -> None:
    errors = Errors()
    errors.add(Known)
    errors.add(Texted)
    rebuilt = errors.rebuilt(Failure.read(errors.stored(Known(5))))
    assert isinstance(rebuilt, Known)
    assert (rebuilt.code, str(rebuilt)) == (5, "code 5")
    assert str(errors.rebuilt(Failure.read(errors.stored(Texted("abc"))))) == "ABC"


class Reserved(Exception):
    """Reads missing attributes from a mapping, like some wrappers."""

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)


class Exiting(Exception):
    def __str__(self) -> str:
        raise SystemExit


def nested(depth: int) -> ExceptionGroup[Exception]:
    group: Exception = ValueError("the innermost")
    for _ in range(depth):
        group = ExceptionGroup("around it", [group])
    assert isinstance(group, ExceptionGroup)
    return group


@pytest.mark.parametrize(
    "error",
    [
        Reserved("odd"),
        Exiting("odd"),
        SyntaxError("odd", ("file", 1, "column", "text")),  # type: ignore[arg-type]
        SyntaxError("odd", ("file", 1, 1, b"text")),  # type: ignore[arg-type]
        nested(1000),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_that_fail_on_inspection_are_stored(error: Exception) -> None:
    """Without stored data, the job would have no outcome."""
    try:
        raise error
    except Exception as raised:  # noqa: BLE001 - whatever it is
        failure = Failure.read(Errors().stored(raised))
    assert failure.type == type(error).__name__
    assert "test_errors_that_fail_on_inspection" in failure.traceback


class Counted(Exception):
    lines: dict[int, str]

    def __init__(self, lines: dict[int, str]) -> None:
        super().__init__(f"{len(lines)} lines")
        self.lines = lines


def test_dict_keys_of_error_attributes_are_restored() -> None:
    errors = Errors()
    errors.add(Counted)
    rebuilt = errors.rebuilt(Failure.read(errors.stored(Counted({7: "x"}))))
    assert isinstance(rebuilt, Counted)
    assert rebuilt.lines == {7: "x"}


class Gone(OSError):
    """Sets its number only in its own `__init__`."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(number, text)


class Missing(OSError): ...


class Long(Exception): ...


@pytest.mark.parametrize("error", [Missing(2, "gone"), Long("x" * 2000), Long("\u2028\x00"), Long(), Long(1, "a")])
def test_error_with_the_same_message_is_rebuilt(error: Exception) -> None:
    errors = Errors()
    errors.add(type(error))
    rebuilt = errors.rebuilt(Failure.read(errors.stored(error)))
    assert type(rebuilt) is type(error)
    assert str(rebuilt) == str(error)


def test_error_with_a_changed_message_is_not_rebuilt() -> None:
    errors = Errors()
    errors.add(Gone)
    failure = Failure.read(errors.stored(Gone(2, "gone")))
    assert str(failure) == "Gone: [Errno 2] gone"
    assert errors.rebuilt(failure) is None


def test_rebuilt_error_skips_its_init() -> None:
    errors = Errors()
    errors.add(Ran)
    stored = errors.stored(Ran("x"))
    before = Ran.ran
    assert isinstance(errors.rebuilt(Failure.read(stored)), Ran)
    assert Ran.ran == before


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"5",
        b'{"type":5,"message":null}',
        b'{"type":"Known","message":"m","known":5}',
        b'{"type":"Known","message":"m","known":{}}',
        b'{"type":"Known","message":"m","known":{"name":"os.system","args":[],"state":{}}}',
        b'{"type":"Known","message":"m","known":{"name":["Known"],"args":[],"state":{}}}',
        b'{"type":"Known","message":"m","known":{"name":"Known","args":{},"state":{}}}',
        b'{"type":"Texted","message":"m","known":{"name":"Texted","args":["x"],"state":{}}}',
        b'{"type":"Texted","message":"m","known":{"name":"Texted","args":["x"],"state":{"text":5}}}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
    ids=lambda stored: repr(stored[:40]),
)
def test_corrupt_stored_errors_are_read_as_text(stored: bytes) -> None:
    errors = Errors()
    errors.add(Known)
    errors.add(Texted)
    failure = Failure.read(stored)
    assert errors.rebuilt(failure) is None
    assert isinstance(str(failure), str)


def test_dunder_attributes_are_not_restored() -> None:
    errors = Errors()
    errors.add(Known)
    found = errors.rebuilt(
        Failure(
            "Known", "m", "", {"name": "Known", "args": ["m"], "state": {"__class__": 5, "__notes__": 5, "code": 1}}
        )
    )
    assert type(found) is Known
    assert vars(found) == {"code": 1}


def test_registration_refuses_unsuitable_classes() -> None:
    lw = Lockwork("redis://127.0.0.1:1")
    with pytest.raises(ConfigError, match="only an Exception class can be registered as an error, not 5"):
        lw.error_type(5)  # type: ignore[call-overload]
    with pytest.raises(ConfigError, match="only an Exception class"):
        lw.error_type(KeyboardInterrupt)  # type: ignore[type-var]
    assert lw.error_type(Known) is Known
    assert lw.error_type(Known) is Known
    other = type("Known", (Exception,), {"__qualname__": "Other.Known"})
    with pytest.raises(ConfigError, match="has the name of .*: register one of them with another name="):
        lw.error_type(other)
    assert lw.error_type(name="other")(other) is other
