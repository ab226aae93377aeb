"""Registration, overrides and direct calls of dependencies, without a server."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import pytest

from lockwork import ConfigError, Depends, Lockwork
from lockwork.injection import INJECTED, Injection, Overrides

if TYPE_CHECKING:
    from decimal import Decimal as OnlyForTypeCheckers

calls: list[str] = []


@pytest.fixture(autouse=True)
def forget() -> None:
    calls.clear()


@pytest.fixture
def app() -> Iterator[Lockwork]:
    # no server listens there: a call to the server would fail
    with Lockwork("redis://127.0.0.1:1", patience=0) as lw:
        yield lw


def get_url() -> str:
    return "real"


async def get_db(url: Annotated[str, Depends(get_url)]) -> AsyncIterator[str]:
    calls.append(f"open {url}")
    yield f"db at {url}"
    calls.append(f"close {url}")


def get_one(two: Annotated[int, Depends(lambda: 2)]) -> int:
    return two


class Settings:
    """A class that is used as a provider."""

    def __init__(self, url: Annotated[str, Depends(get_url)]) -> None:
        self.url = url


class Maker:
    async def __call__(self) -> str:
        return "made"


Db = Annotated[str, Depends(get_db)]


async def send(user: int, db: Db, times: int = 1) -> str:
    return f"{user} {times} {db}"


def test_injected_values_are_no_job_arguments(app: Lockwork) -> None:
    task = app.task(send)
    assert task.call(1, times=2).record.endswith(b'["send",[1],{"times":2}]')  # type: ignore[call-arg]
    assert task.call(1, 2).record.endswith(b'["send",[1,2]]')  # type: ignore[arg-type]
    for arguments, text in [
        (((1, 2, 3), {}), "too many"),
        (((1,), {"db": "mine"}), "'db' is injected by the worker, so callers must not pass it"),
        (((), {}), "missing"),
    ]:
        with pytest.raises(TypeError, match=text):
            task.enqueue(*arguments[0], **arguments[1])  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        task.enqueue_many([(1, 2, 3)])  # type: ignore[list-item]


def test_name_templates_do_not_see_injected_values(app: Lockwork) -> None:
    task = app.task(key="user:{user}", group="times:{times}")(send)
    assert task.call(1, 2).record.startswith(b"1,4,user:1,times:2,")  # type: ignore[arg-type]
    assert task.call(1).record.startswith(b"1,4,user:1,times:1,")  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="names a parameter that the function does not have: it has user, times"):
        app.task(name="other", key="db:{db}")(send)


def test_scheduled_task_needs_no_arguments_for_injected_parameters(app: Lockwork) -> None:
    async def sweep(db: Db) -> None: ...

    task = app.task(every="10s")(sweep)
    assert task.call().record.endswith(b'["sweep",[]]')  # type: ignore[call-arg]
    assert list(app.plans["default"]) == ["sweep"]


async def test_arun_provides_dependencies(app: Lockwork) -> None:
    task = app.task(send)
    assert await task.arun(5) == "5 1 db at real"  # type: ignore[call-arg]
    assert await task.arun(5, times=3) == "5 3 db at real"  # type: ignore[call-arg]
    assert calls == ["open real", "close real"] * 2
    assert await task.arun(5, "mine") == "5 1 mine"
    assert await task.arun(5, db="mine", times=2) == "5 2 mine"
    assert await task(5, "mine") == "5 1 mine"
    assert len(calls) == 4


async def test_providers_of_every_kind_are_called(app: Lockwork) -> None:
    async def awaited() -> int:
        return 1

    def generated() -> Iterator[int]:
        yield 2

    async def generated_too() -> AsyncIterator[int]:
        yield 3

    class Given:
        def __call__(self) -> int:
            return 4

    # with the future import, annotations are text, so the test sets the objects
    def take(a: int, b: int, c: int, d: int, e: str, f: int, g: str) -> list[Any]:
        return [a, b, c, d, e, f, g]

    providers: tuple[Any, ...] = (
        awaited,
        generated,
        generated_too,
        Given(),
        Maker(),
        functools.partial(get_one, two=5),
        Settings,
    )
    take.__annotations__ = {
        name: Annotated[Any, Depends(provider)] for name, provider in zip("abcdefg", providers, strict=True)
    }
    found = await app.task(take).arun()  # type: ignore[call-arg]
    assert found[:6] == [1, 2, 3, 4, "made", 5]
    assert found[6].url == "real"


async def test_provider_can_be_overridden(app: Lockwork) -> None:
    """The override's dependencies are provided instead of the original's."""
    task = app.task(send)

    async def get_fake() -> AsyncIterator[str]:
        calls.append("open fake")
        yield "fake"
        calls.append("close fake")

    with app.override(get_db, get_fake):
        assert await task.arun(1) == "1 1 fake"  # type: ignore[call-arg]
        with app.override(get_db, lambda: "faker"):
            assert await task.arun(1) == "1 1 faker"  # type: ignore[call-arg]
        assert await task.arun(1) == "1 1 fake"  # type: ignore[call-arg]
    with app.override(get_url, lambda: "elsewhere"):
        assert await task.arun(1) == "1 1 db at elsewhere"  # type: ignore[call-arg]
    assert await task.arun(1) == "1 1 db at real"  # type: ignore[call-arg]
    assert calls[:4] == ["open fake", "close fake"] * 2
    with pytest.raises(ConfigError, match="overridden by another function"), app.override(get_db, "fake"):  # type: ignore[arg-type]
        pass


async def test_override_that_makes_a_cycle_is_refused(app: Lockwork) -> None:
    task = app.task(send)

    def again(db: Db) -> str:
        return db

    again.__annotations__ = {"db": Annotated[str, Depends(get_db)]}
    with app.override(get_url, again), pytest.raises(ConfigError, match="get_db needs .*again needs get_db"):
        await task.arun(1)  # type: ignore[call-arg]


def test_cycle_is_refused_at_registration(app: Lockwork) -> None:
    def one(x: Any) -> None: ...

    def two(x: Any) -> None: ...

    one.__annotations__ = {"x": Annotated[Any, Depends(two)]}
    two.__annotations__ = {"x": Annotated[Any, Depends(one)]}

    def task(x: Any) -> None: ...

    task.__annotations__ = {"x": Annotated[Any, Depends(one)]}
    with pytest.raises(ConfigError, match=r"form a cycle: .*one needs .*two needs .*one$"):
        app.task(task)
    assert app.registry.queues() == []

    def itself(x: Any) -> None: ...

    itself.__annotations__ = {"x": Annotated[Any, Depends(itself)]}
    task.__annotations__ = {"x": Annotated[Any, Depends(itself)]}
    with pytest.raises(ConfigError, match="itself needs .*itself"):
        app.task(task)


def refused(annotation: Any, provider: Any = None, **annotations: Any) -> str:
    """Return the error message for a task whose parameter has this annotation."""

    def task(x: Any) -> None: ...

    if provider is not None:
        provider.__annotations__ = annotations
    task.__annotations__ = {"x": annotation}
    with pytest.raises(ConfigError) as caught:
        Injection(task, Overrides(), is_async=False)
    return str(caught.value)


def test_unsuitable_dependencies_are_refused_at_registration() -> None:
    def needs(url: str) -> str:
        return url

    assert "has a parameter 'url' without a value" in refused(Annotated[str, Depends(needs)])
    assert "lives as long as the worker, so it cannot depend on" in refused(
        Annotated[str, Depends(needs, scope="worker")], needs, url=Annotated[str, Depends(get_url)]
    )
    assert "needs one Depends(provider)" in refused(Annotated[str, Depends])
    assert "needs one Depends(provider)" in refused(Annotated[str, Depends(get_url), Depends(get_url)])
    assert "write Annotated[TYPE, Depends(...)] around the whole type" in refused(
        Annotated[str, Depends(get_url)] | None
    )
    assert "write Annotated[TYPE, Depends(...)] around the whole type" in refused(
        list[Annotated[str, Depends(get_url)]]
    )
    assert "names must be importable at run time" in refused("Annotated[OnlyForTypeCheckers, Depends(get_url)]")

    @contextlib.contextmanager
    def managed() -> Iterator[int]:
        yield 1

    assert "give Depends the bare generator" in refused(Annotated[int, Depends(managed)])

    def by_position(x: Any, /) -> None: ...

    by_position.__annotations__ = {"x": Annotated[str, Depends(get_url)]}
    with pytest.raises(ConfigError, match="it takes no keyword"):
        Injection(by_position, Overrides(), is_async=False)
    with pytest.raises(ConfigError, match="Depends needs a function"):
        Depends("get_url")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="scope is 'job' or 'worker', not 'request'"):
        Depends(get_url, scope="request")  # type: ignore[arg-type]


def test_names_imported_only_for_type_checking_are_ignored(app: Lockwork) -> None:
    async def task(price: OnlyForTypeCheckers, db: Db = INJECTED) -> None: ...

    assert app.task(task).injection.names == {"db"}


def test_missing_parameter_error_names_the_fix(app: Lockwork) -> None:
    def task(number: int, db: Db = INJECTED) -> str:
        return db.upper()

    with pytest.raises(RuntimeError, match="was not injected: .* or call task.arun"):
        app.task(task)(1)
    assert repr(INJECTED) == "INJECTED"


@pytest.mark.parametrize(
    ("args", "kwargs", "wanted"),
    [
        ([1], {}, [1, "A", 0, "C"]),
        ([1, 2], {}, [1, "A", 2, "C"]),
        ([], {"x": 1, "y": 2}, [1, "A", 2, "C"]),
        ([1], {"y": 2}, [1, "A", 2, "C"]),
    ],
)
def test_arguments_and_injected_values_are_placed(args: list[Any], kwargs: dict[str, Any], wanted: list[Any]) -> None:
    def task(x: int, a: Annotated[str, Depends(get_url)], y: int = 0, *, c: Annotated[str, Depends(get_url)]) -> Any:
        return [x, a, y, c]

    injection = Injection(task, Overrides(), is_async=False)
    filled, named = injection.filled(args, kwargs, {"a": "A", "c": "C"})
    assert task(*filled, **named) == wanted


def test_arguments_of_any_number_come_last() -> None:
    def task(a: Annotated[str, Depends(get_url)], *more: int, **others: int) -> Any:
        return [a, more, others]

    injection = Injection(task, Overrides(), is_async=False)
    filled, named = injection.filled([1, 2], {"z": 3}, {"a": "A"})
    assert task(*filled, **named) == ["A", (1, 2), {"z": 3}]
