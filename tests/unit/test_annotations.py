"""Each annotation is read alone, again at the first call; a parameter whose annotation cannot be read is refused."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import pytest
from pydantic import BaseModel

from app_modules import load_app
from lockwork import ConfigError, Lockwork
from lockwork.codecs import result
from lockwork.failures import Errors, Failure
from lockwork.signatures import Signature
from lockwork.type_hints import of_class, of_function
from processes import worker

if TYPE_CHECKING:
    from decimal import Decimal

    Later = date

DAY = date(2026, 11, 21)


@pytest.fixture
def lw() -> Iterator[Lockwork]:
    with Lockwork("redis://127.0.0.1:1", patience=0) as app:
        yield app


def mixed(day: date, price: Decimal, *, until: date | None = None) -> Missing: ...  # type: ignore[name-defined]  # noqa: F821


@dataclass
class Bill:
    price: Decimal


class Span(TypedDict, total=False):
    since: date
    price: Decimal


def later(order: Later, more: list[Later]) -> Later: ...  # type: ignore[empty-body]


def test_unreadable_annotation_leaves_the_others_readable() -> None:
    found = of_function(mixed)
    assert (found["day"], found["until"]) == (date, date | None)
    assert of_class(Span)["since"] is date


def test_unreadable_return_annotation_leaves_the_parameters_converted() -> None:
    def shipped(day: date) -> Missing: ...  # type: ignore[name-defined]  # noqa: F821

    args: list[Any] = ["2026-11-21"]
    Signature(shipped).convert(args, {})
    assert args == [DAY]


def test_parameter_whose_annotation_cannot_be_read_is_refused_by_name(lw: Lockwork) -> None:
    task = lw.task(mixed)
    sends: list[Any] = [task.enqueue, task.call, lambda *args: task.enqueue_many([args])]
    for send in sends:
        with pytest.raises(ConfigError, match="task 'mixed': the annotation of 'price', Decimal, cannot be read: name"):
            send(DAY, 1)
    with pytest.raises(ConfigError, match="the annotation of 'price'"):
        lw.registry.complete(["default"])
    lw.registry.complete(["other"])


def test_parameter_of_a_class_with_an_unreadable_field_is_refused_by_name(lw: Lockwork) -> None:
    @lw.task
    def pay(day: date, bill: list[Bill]) -> None: ...

    with pytest.raises(ConfigError, match=r"the annotation of 'bill', list\[.*Bill\], cannot be read: name 'Decimal'"):
        pay.enqueue(DAY, [])


def test_optional_and_variadic_parameters_are_refused_too(lw: Lockwork) -> None:
    def optional(price: Decimal | None = None) -> None: ...
    def positional(*prices: Decimal) -> None: ...
    def named(**prices: Decimal) -> None: ...
    def described(**span: Unpack[Span]) -> None: ...

    for function in (optional, positional, named, described):
        task: Any = lw.task(function)
        with pytest.raises(ConfigError, match="cannot be read: name 'Decimal' is not defined"):
            task.enqueue(price=1) if function is not positional else task.enqueue(1)


def test_schedule_of_a_task_without_arguments_reads_no_annotation(lw: Lockwork) -> None:
    @lw.task(every="5m")
    def sweep(price: Decimal | None = None) -> None: ...

    assert lw.plans


def test_name_defined_after_the_task_is_read_at_the_first_call(lw: Lockwork) -> None:
    task = lw.task(later)
    assert task.signature.incomplete == ["order", "more"]
    try:
        globals()["Later"] = date
        task.call(DAY, [DAY])
        assert task.signature.incomplete == []
        args: list[Any] = ["2026-11-21", ["2026-11-21"]]
        task.signature.convert(args, {})
        assert args == [DAY, [DAY]]
        assert result(b'"2026-11-21"', task.signature.returns, "job 1") == DAY
    finally:
        del globals()["Later"]


def test_wrong_type_defined_after_the_task_is_refused_at_the_first_call(lw: Lockwork) -> None:
    task = lw.task(later)
    try:
        globals()["Later"] = complex
        with pytest.raises(ConfigError, match="the annotation of 'order' cannot be used: complex cannot be sent"):
            task.call(1j, [])  # type: ignore[arg-type]
    finally:
        del globals()["Later"]


def test_names_of_an_enclosing_function_are_read(lw: Lockwork) -> None:
    @dataclass
    class Local:
        day: date

    @lw.task
    def send(local: Local) -> list[Local]: ...  # type: ignore[empty-body]

    assert of_function(send.function) == {"local": Local, "return": list[Local]}
    send.call(Local(DAY))


def test_annotations_of_wrapped_partial_and_callable_objects_are_read() -> None:
    def wrapping(function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> None: ...

        return wrapper

    class Sender:
        def __call__(self, day: date) -> None: ...
        def send(self, day: date) -> None: ...

    def plain(day: date, note: str) -> None: ...

    for function in (wrapping(plain), partial(wrapping(partial(plain)), note=""), Sender(), Sender().send):
        args: list[Any] = ["2026-11-21"]
        Signature(function).convert(args, {})
        assert args == [DAY]


def test_batch_task_reads_a_late_annotation(lw: Lockwork) -> None:
    @lw.task(batch=10)
    def index(items: list[Later]) -> list[Later]: ...  # type: ignore[empty-body]

    with pytest.raises(ConfigError, match="task 'index': the annotation of 'item'.*name 'Later'"):
        index.enqueue("2026-11-21")  # type: ignore[arg-type]
    try:
        globals()["Later"] = date
        index.call(DAY)
        args: list[Any] = ["2026-11-21"]
        index.signature.convert(args, {})
        assert args == [DAY]
        assert result(b'"2026-11-21"', index.signature.returns, "job 1") == DAY
    finally:
        del globals()["Later"]


def test_unreadable_result_arrives_as_json_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    def one() -> Nowhere: ...  # type: ignore[name-defined]  # noqa: F821

    def other() -> Bill: ...  # type: ignore[empty-body]

    with caplog.at_level(logging.WARNING):
        for function, name in ((one, "Nowhere"), (other, "Bill")):
            for _ in range(3):
                assert result(b'{"price":"1.10"}', Signature(function).returns, "job 1") == {"price": "1.10"}
            (record,) = [each for each in caplog.records if f"its annotation {name} " in each.getMessage()]
            assert record.getMessage().startswith("the result of job 1 arrives as JSON: ")


class Incomplete(BaseModel):
    price: Decimal


def test_model_that_pydantic_cannot_complete_is_refused_by_name(lw: Lockwork) -> None:
    @lw.task
    def pay(bill: Incomplete) -> None: ...

    with pytest.raises(ConfigError, match="the annotation of 'bill', Incomplete, cannot be read: .*Decimal"):
        pay.enqueue(1)  # type: ignore[arg-type]


def test_error_with_one_unreadable_attribute_keeps_the_others() -> None:
    class Late(Exception):
        at: datetime
        price: Decimal

        def __init__(self, at: datetime) -> None:
            super().__init__("late")
            self.at, self.price = at, "free"  # type: ignore[assignment]

    errors = Errors()
    errors.add(Late)
    at = datetime(2026, 11, 21, tzinfo=UTC)
    found = errors.rebuilt(Failure.read(errors.stored(Late(at))))
    assert isinstance(found, Late)
    assert vars(found) == {"at": at, "price": "free"}


SHOP = """
from __future__ import annotations
from datetime import date
from typing import TYPE_CHECKING
from lockwork import Lockwork

if TYPE_CHECKING:
    from decimal import Decimal

    Later = date

lw = Lockwork()

@lw.task
def book(order: Order) -> Decimal:
    assert type(order) is Order, order
    return order.day

@lw.task(queue="prices")
def price(amount: Decimal) -> None: ...

from dataclasses import dataclass

@dataclass
class Order:
    day: date
"""


def test_worker_reads_late_annotations_and_refuses_unreadable_ones(tmp_path: Path, own_url: str) -> None:
    (tmp_path / "late_shop.py").write_text(SHOP)
    shop: Any = load_app(tmp_path, "late_shop", own_url)
    with shop.lw:
        booked = shop.book.enqueue(shop.Order(DAY))
        with worker("late_shop:lw", "--burst", "-q", "default", url=own_url, folder=tmp_path) as process:
            assert process.wait() == 0
        assert booked.result(0) == "2026-11-21"
    with worker("late_shop:lw", "--burst", url=own_url, folder=tmp_path) as process:
        assert process.wait() != 0
        assert "task 'price': the annotation of 'amount', Decimal, cannot be read: name 'Decimal'" in process.errors


def test_argument_that_does_not_fit_is_named_with_task_and_type() -> None:
    def send(day: date, *rest: date, sizes: list[int]) -> None: ...

    signature = Signature(send, task="mail.send")
    calls: list[tuple[list[object], dict[str, object], str]] = [
        (["x"], {}, "argument 'day' of task 'mail.send' does not fit date"),
        (["2026-01-01", "x"], {}, "argument number 2 of task 'mail.send' does not fit date"),
        ([], {"sizes": ["x"]}, r"argument 'sizes' of task 'mail.send' does not fit list\[int\]"),
    ]
    for args, kwargs, text in calls:
        with pytest.raises(ValueError, match=f"{text}.*: enqueue the job again"):
            signature.convert(args, kwargs)
