"""Options of batch tasks and the records of their jobs, without a server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import pytest

from lockwork import ConfigError, Depends, Lockwork
from lockwork.injection import INJECTED


@pytest.fixture
def app() -> Iterator[Lockwork]:
    # no server listens there: a call to the server would fail
    with Lockwork("redis://127.0.0.1:1", patience=0) as lw:
        yield lw


def bare(items):  # type: ignore[no-untyped-def]  # a function without annotations
    return items


async def of_sequence(items: Sequence[int]) -> Sequence[int | Exception]:
    return items


def of_pairs(items: list[tuple[int, str]], extra: Annotated[int, Depends(lambda: 2)] = INJECTED) -> None:
    return None


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"batch": 0}, "batch must be a whole number from 1 to 10,000, not 0"),
        ({"batch": -1}, "batch must be a whole number"),
        ({"batch": 2.5}, "batch must be a whole number"),
        ({"batch": True}, "batch must be a whole number"),
        ({"batch": "100"}, "batch must be a whole number"),
        ({"linger": "50ms"}, "linger is how long a batch waits for more jobs, so it needs batch=..."),
        ({"batch": 2, "linger": -1}, "linger must be between 0"),
        ({"batch": 2, "linger": "soon"}, "linger"),
        ({"batch": 2, "linger": "61s"}, "linger must be at most 1 minute"),
        ({"bacth": 2}, "did you mean 'batch'"),
        ({"batch": 2, "lingre": 2}, "did you mean 'linger'"),
    ],
)
def test_wrong_batch_options_are_refused(app: Lockwork, options: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        app.task(**options)(bare)


def test_functions_without_exactly_one_list_are_refused(app: Lockwork) -> None:
    def nothing() -> None: ...

    def two(a: list[int], b: list[int]) -> None: ...

    def no_list(a: int) -> None: ...

    def a_dict(a: dict[str, int]) -> None: ...

    def many(*a: list[int]) -> None: ...

    def by_name(*, a: list[int]) -> None: ...

    def one_result(a: list[int]) -> int:
        return 1

    found = {
        nothing: "it takes nothing",
        two: "it takes a, b",
        no_list: "its a is not a list",
        a_dict: "its a is not a list",
        many: "it takes a",
        by_name: "it takes a",
        one_result: "it returns neither a list nor None",
    }
    for function, text in found.items():
        with pytest.raises(ConfigError, match=f"a batch task takes one list .* does not: {text}"):
            app.task(batch=2)(function)  # type: ignore[call-overload]


def test_jobs_of_a_batch_task_have_one_item(app: Lockwork) -> None:
    task = app.task(batch=2)(of_sequence)
    assert task.call(5).record.endswith(b'["of_sequence",[5]]')
    assert task.signature.returns is int
    for arguments in ((), (1, 2)):
        with pytest.raises(TypeError):
            task.enqueue(*arguments)
    with pytest.raises(TypeError):
        task.enqueue(item=1)  # type: ignore[call-arg]
    pairs = app.task(batch=2)(of_pairs)
    args: list[Any] = [[1, "a"]]
    pairs.signature.convert(args, {})
    assert args == [(1, "a")]
    with pytest.raises(ValueError, match="Expected `int`"):
        pairs.signature.convert([["a", "b"]], {})
    assert app.task(batch=2)(bare).call([1]).record.endswith(b'["bare",[[1]]]')


def test_key_template_uses_the_item(app: Lockwork) -> None:
    task = app.task(batch=2, key="order:{item[0]}", group="{item[1]}")(of_pairs)
    assert task.call((7, "x")).record.startswith(b"1,4,order:7,x,")
    assert task.options(key="{item[1]}").call((7, "x")).record.startswith(b"1,4,x,x,")
    with pytest.raises(ConfigError, match="names a parameter that the function does not have: did you mean {item}"):
        app.task(batch=2, key="{items}")(of_pairs)


def test_options_apply_to_single_jobs(app: Lockwork) -> None:
    task = app.task(batch=2, timeout="1m")(of_sequence)
    other = task.options(retries=7, delay="1h")
    assert other.batching == task.batching
    assert other.call(1).delay_ms == 3_600_000
    with pytest.raises(ConfigError, match="one call runs many jobs, so only the task can have a timeout"):
        task.options(timeout=1)


def test_scheduled_batch_task_needs_an_item(app: Lockwork) -> None:
    with pytest.raises(ConfigError, match="schedule a call of it with lw.schedule"):
        app.task(batch=2, every="10s")(of_sequence)
    task = app.task(batch=2)(of_sequence)
    assert app.schedule(task.call(5), name="five", every="10s").name == "five"


async def test_direct_call_takes_the_list(app: Lockwork) -> None:
    task = app.task(batch=2)(of_sequence)
    assert await task([1, 2]) == [1, 2]
    assert await task.arun([1, 2]) == [1, 2]
    assert app.task(batch=2)(bare)([3]) == [3]
