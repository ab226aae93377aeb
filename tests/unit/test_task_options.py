"""Tasks: how they are registered and which options they take; nothing here asks a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from enum import Enum
from functools import partial
from inspect import get_annotations
from numbers import Number
from pathlib import Path
from typing import Any, Protocol

import pytest

from lockwork import ConfigError, Lockwork, PayloadTooLarge, UnknownTask, current_job
from lockwork.schedules.options import ScheduleSettings
from lockwork.tasks.batch import BatchSettings


class Opaque: ...


@dataclass
class Nested:
    later: Later  # type: ignore[name-defined]  # noqa: F821 - defined below a task that takes it


@pytest.fixture
def app() -> Iterator[Lockwork]:
    # no server listens there: any command would fail
    with Lockwork("redis://127.0.0.1:1", patience=0, max_payload=1000) as lw:
        yield lw


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("retries", -1, "retries must be a whole number from 0 to 1,000"),
        ("retries", 1.5, "retries must be a whole number"),
        ("retries", True, "retries must be a whole number"),
        ("retries", 1001, "retries must be a whole number"),
        ("backoff", -1, "backoff must be between 0"),
        ("backoff", "soon", "backoff must be seconds"),
        ("timeout", 0, "timeout must be more than 0"),
        ("timeout", -5, "timeout must be between 0"),
        ("priority", "urgent", "priority must be one of high, normal, low, or, in a queue of ten_priorities"),
        ("queue", "a b", "a queue's name must be"),
        ("queue", "a/b", "must not contain a slash"),
        ("name", "a b", "a task's name must be"),
        ("keep_result", "no", "keep_result must be True or False, not 'no'"),
    ],
)
def test_wrong_option_of_a_task_is_refused(app: Lockwork, option: str, value: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        app.task(**{option: value})(print)


@pytest.mark.parametrize(("wrong", "right"), [("retry", "retries"), ("time_out", "timeout"), ("queues", "queue")])
def test_unknown_option_gets_a_suggestion(app: Lockwork, wrong: str, right: str) -> None:
    with pytest.raises((ConfigError, TypeError), match=f"{wrong}.*did you mean '{right}'"):
        app.task(**{wrong: 1})(print)  # type: ignore[call-overload]


@pytest.mark.parametrize(("wrong", "right"), [("delays", "delay"), ("prio", "priority")])
def test_unknown_option_of_a_call_gets_a_suggestion(app: Lockwork, wrong: str, right: str) -> None:
    task = app.task(print)
    with pytest.raises((ConfigError, TypeError), match=f"{wrong}.*did you mean '{right}'"):
        task.options(**{wrong: 1})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("eta", "'at'"),
        ("countdown", "'delay'"),
        ("max_retries", "'retries'"),
        ("time_limit", "'hard_timeout'"),
        ("soft_time_limit", "'timeout'"),
        ("timeout_ms", "'timeout'"),
        ("ttl", "'expires' or 'result_ttl'"),
    ],
)
def test_option_names_of_other_queues_are_recognized(app: Lockwork, wrong: str, right: str) -> None:
    with pytest.raises(ConfigError, match=f"a job has no option '{wrong}': did you mean {right}[?]"):
        app.task(print).options(**{wrong: 1})  # type: ignore[arg-type]


def test_job_options_of_other_queues_are_redirected(app: Lockwork) -> None:
    with pytest.raises(ConfigError, match=r"no option 'eta': it is 'at'; set it for single jobs, task.options\(at="):
        app.task(eta=1)  # type: ignore[call-overload]


def test_unknown_option_error_lists_all_options(app: Lockwork) -> None:
    with pytest.raises(ConfigError, match="a job has no option 'fenced': known are delay, at, "):
        app.task(print).options(fenced=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("name", ["delay", "priority", "expires"])
def test_option_among_the_arguments_gets_a_hint(app: Lockwork, name: str) -> None:
    @app.task(name="greet")
    def hello(n: int) -> None: ...

    for call in (hello.enqueue, hello.call):
        with pytest.raises(TypeError, match=rf"^hello\(n\): .*'{name}'; .* hello.options\({name}=...\).enqueue\(...\)"):
            call(1, **{name: 1})
    with pytest.raises(TypeError, match="'m'$"):
        hello.enqueue(1, m=2)  # type: ignore[call-arg]
    nameless: Any = app.task(name="nameless")(partial(hello.function))
    with pytest.raises(TypeError, match=rf"nameless.options\({name}="):
        nameless.enqueue(1, **{name: 1})


def test_argument_may_have_the_name_of_an_option(app: Lockwork) -> None:
    @app.task
    def hello(delay: int) -> None: ...

    with pytest.raises(TypeError, match="'m'$"):
        hello.call(delay=2, m=2)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "name",
    [
        *("other_queues", "name", "keep_result", "executor", "group_rate"),
        *get_annotations(ScheduleSettings),
        *get_annotations(BatchSettings),
    ],
)
def test_task_option_on_a_single_job_is_refused(app: Lockwork, name: str) -> None:
    with pytest.raises(ConfigError, match=rf"a job has no option '{name}': set it for the task, @lw.task\({name}="):
        app.task(print).options(**{name: "x"})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["delay", "at"])
def test_job_option_on_a_task_is_refused(app: Lockwork, name: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"a task has no option '{name}': set it for single jobs, task.options\({name}="
    ):
        app.task(**{name: "1s"})  # type: ignore[call-overload]


def test_options_of_one_call_do_not_change_the_task(app: Lockwork) -> None:
    @app.task(priority="low")
    def work() -> None: ...

    hurried = work.options(priority="high", delay="1s")
    assert hurried.call().record.startswith(b"0,4,")
    assert hurried.call().delay_ms == 1000
    assert work.call().record.startswith(b"2,4,")
    assert work.call().delay_ms == 0
    with pytest.raises(ConfigError, match="delay must be between 0"):
        work.options(delay=-1)


def test_task_is_still_callable_as_its_function(app: Lockwork) -> None:
    @app.task
    def double(x: int) -> int:
        """Return twice x."""
        return 2 * x

    assert double(4) == 8
    assert double.__doc__ == "Return twice x."
    assert "double" in repr(double)


def test_objects_that_are_not_functions_cannot_be_tasks(app: Lockwork) -> None:
    class Callable:
        async def __call__(self) -> None: ...

    def yields() -> Iterator[int]:
        yield 1

    async def yields_too() -> AsyncIterator[int]:
        yield 1

    made: Any = app.task
    for function, text in [
        ("mail", "a task needs a function, not 'mail': pass the task's name as name="),
        (5, "a task needs a function, not 5"),
        (partial(print, 1), "has no name: set name= for the task"),
        (Callable(), "is an object: give its __call__"),
        (lambda: None, "has no name: set name= for the task"),  # a second one would take its place
        (yields, "yields: return a list instead"),
        (yields_too, "yields: return a list instead"),
    ]:
        for register in (made, made(retries=1)):
            with pytest.raises(ConfigError, match=text):
                register(function)
    assert app.registry.queues() == []
    assert made(name="hello")(partial(print, 1)).name == "hello"


class Mixed(Enum):
    NAME = "x"
    NUMBER = 2


def test_required_argument_of_an_unsupported_type_is_refused(app: Lockwork) -> None:
    def required(how: Mixed) -> None: ...
    def inside(*, how: list[dict[str, Mixed]]) -> None: ...
    def either(how: bytes | str, /) -> None: ...

    for function in (required, inside, either):
        with pytest.raises(ConfigError, match=r"task '\w+': the annotation of 'how' cannot be used: .*"):
            app.task(function)


def test_optional_argument_of_an_unsupported_type_is_accepted(app: Lockwork) -> None:
    def optional(how: Mixed = Mixed.NAME, *more: Mixed, **others: Mixed) -> Mixed: ...  # type: ignore[empty-body]
    def given(day: date, how: Mixed) -> None: ...
    def by_object(how: Opaque | None = None, *, later: Nested) -> None: ...

    app.task(optional)
    app.task(name="given")(partial(given, how=Mixed.NAME))
    app.task(by_object)


class Model(Protocol):
    def load(self) -> None: ...


@pytest.mark.parametrize("wanted", [Opaque, list[Opaque], dict[str, Opaque | None], Path, complex])
def test_unsupported_class_is_refused_at_definition(app: Lockwork, wanted: Any) -> None:
    def takes(how: Any) -> None: ...
    def returns() -> Any: ...

    takes.__annotations__["how"] = returns.__annotations__["return"] = wanted
    for function, what in ((takes, "annotation of 'how' cannot be used"), (returns, "result cannot be sent")):
        with pytest.raises(
            ConfigError, match=f"{what}.*: .* cannot be sent as JSON: use a dataclass, .* Pydantic model"
        ):
            app.task(function)
    app.task(keep_result=False)(returns)


@pytest.mark.parametrize("wanted", [Model, Sequence[int], Any, object, Number])
def test_optional_and_union_annotations_are_accepted(app: Lockwork, wanted: Any) -> None:
    def both(how: Any) -> Any: ...

    both.__annotations__ |= {"how": wanted, "return": wanted}
    app.task(both)


def test_classes_and_unbound_methods_cannot_be_tasks(app: Lockwork) -> None:
    class Mail:
        def send(self, to: str) -> None: ...

        @staticmethod
        def count(to: str) -> None: ...

    made: Any = app.task
    with pytest.raises(ConfigError, match="made of a function, and .*Mail is a class"):
        made(Mail)
    with pytest.raises(ConfigError, match="Mail.send is a method: .* a function of the module"):
        made(Mail.send)
    made(Mail().send)
    made(Mail.count)


def test_functions_cannot_share_a_task_name(app: Lockwork) -> None:
    def one() -> None: ...

    def two() -> None: ...

    app.task(name="same")(one)
    app.task(name="same")(one)
    with pytest.raises(ConfigError, match="has the same name as .*: set name="):
        app.task(name="same")(two)


def test_name_resolves_only_in_the_registry(app: Lockwork) -> None:
    app.task(name="mine")(print)
    for name in ("os.system", "builtins.print", "__class__", "mine ", "MINE"):
        with pytest.raises(UnknownTask, match="no task is named"):
            app.registry.get(name)


def test_similar_task_name_is_suggested(app: Lockwork) -> None:
    app.task(name="ok")(print)
    with pytest.raises(UnknownTask, match="no task is named 'okk' here, but 'ok' is: was it renamed, or"):
        app.registry.get("okk")
    with pytest.raises(UnknownTask, match="no task is named 'mail' here: is its module imported by"):
        app.registry.get("mail")


def test_bad_arguments_fail_at_the_call_and_not_in_the_worker(app: Lockwork) -> None:
    @app.task
    def place(buyer: str, n: int = 1) -> None: ...

    for call in (
        lambda: place.enqueue(),  # type: ignore[call-arg]
        lambda: place.enqueue("bob", 1, 2),  # type: ignore[call-arg]
        lambda: place.enqueue("bob", count=2),  # type: ignore[call-arg]
        lambda: place.enqueue_many([("bob",), ()]),  # type: ignore[list-item]
        lambda: place.call(),  # type: ignore[call-arg]
    ):
        with pytest.raises(TypeError, match=r"^place\(buyer, n\): .*argument"):
            call()
    with pytest.raises(ConfigError, match="arguments of task 'place' cannot be sent as JSON"):
        place.enqueue("bob", object())  # type: ignore[arg-type]
    with pytest.raises(PayloadTooLarge, match="arguments of task 'place' would be .* bytes, and the limit is 1000"):
        place.enqueue("b" * 1001)


@pytest.mark.parametrize("arguments", [["bo"], [5], [{"buyer": "bob"}], ["b", "c"]])
def test_enqueue_many_needs_tuples_of_arguments(app: Lockwork, arguments: list[Any]) -> None:
    @app.task
    def place(buyer: str, n: int = 1) -> None: ...

    with pytest.raises((ConfigError, TypeError), match="tuple"):
        place.enqueue_many(arguments)


def test_current_job_outside_of_a_worker_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="current_job.* inside a task that a worker runs"):
        current_job()
