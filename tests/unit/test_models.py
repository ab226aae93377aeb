"""Pydantic models and attrs classes as arguments and results: what arrives is what was sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, computed_field

from app_modules import load_app
from lockwork import ConfigError, Lockwork, ResultUnavailable
from lockwork.codecs import convert, decode, encode, result
from processes import worker

CAP = 1 << 20


class Item(BaseModel):
    """Strict: from JSON, text may be a date, but an object made in Python must be one."""

    model_config = ConfigDict(strict=True)

    at: datetime
    price: Decimal
    tags: set[str] = set()
    counts: dict[int, str] = {}
    name: str = Field(default="", alias="Name")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def double(self) -> Decimal:
        return self.price * 2


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid")

    items: list[Item]
    within: timedelta


class Ids(RootModel[list[int]]): ...


@attrs.define
class Parcel:
    weight: int
    order: Order | None = None


ITEM = Item(at=datetime(2026, 11, 22, tzinfo=UTC), price=Decimal("1.10"), tags={"a", "b"}, counts={1: "x"}, Name="pen")
ORDER = Order(items=[ITEM], within=timedelta(hours=1))


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (ITEM, Item),
        (ORDER, Order),
        ([ITEM, ITEM], list[Item]),
        ({"a": ORDER}, dict[str, Order]),
        (None, Order | None),
        (ORDER, Order | None),
        (Ids([1, 2]), Ids),
        (Parcel(3, ORDER), Parcel),
        ([Parcel(3)], list[Parcel]),
        ((ITEM, 1), tuple[Item, int]),
    ],
)
def test_models_survive_a_round_trip(value: object, wanted: Any) -> None:
    back = convert(decode(encode(value, "it", CAP)), wanted)
    assert back == value
    assert type(back) is type(value)


def test_without_an_annotation_a_model_arrives_as_json() -> None:
    assert decode(encode(ORDER, "it", CAP))["items"][0]["Name"] == "pen"


def test_a_model_error_names_the_field() -> None:
    with pytest.raises(ValueError, match="price") as wrong:
        convert({"items": [{"at": "2026-11-22T00:00:00Z"}], "within": "PT1H"}, Order)
    assert "items.0.price" in str(wrong.value)
    with pytest.raises(ResultUnavailable, match="the result of job 7 does not match its annotation Order: "):
        result(b"{}", Order, "job 7")


def test_numbers_that_are_none_are_refused_in_models_too() -> None:
    class Reading(BaseModel):
        celsius: float | None

    assert decode(encode(Reading(celsius=None), "it", CAP)) == {"celsius": None}
    for value in (float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="it cannot be sent as JSON"):
            encode({"null": Reading(celsius=value)}, "it", CAP)


def test_a_class_itself_is_no_model() -> None:
    with pytest.raises(ConfigError, match="cannot be sent as JSON: Encoding objects of type ModelMetaclass"):
        encode(Order, "it", CAP)


def test_tasks_take_and_return_models() -> None:
    with Lockwork("redis://127.0.0.1:1", patience=0) as lw:

        @lw.task
        def pack(order: Order, *more: Order, parcel: Parcel | None = None) -> Parcel: ...  # type: ignore[empty-body]

        @lw.task(batch=10)
        def total(orders: list[Order]) -> list[Item]: ...  # type: ignore[empty-body]


SHOP = """
from attrs import define
from lockwork import Lockwork
from pydantic import BaseModel

lw = Lockwork()


class Order(BaseModel):
    id: int
    lines: dict[str, int]


@define
class Parcel:
    order: Order
    weight: int


@lw.task
def pack(order: Order) -> Parcel:
    assert type(order) is Order
    return Parcel(order, sum(order.lines.values()))


@lw.task(executor="process")
async def ship(parcel: Parcel) -> Order:
    return parcel.order
"""


def test_models_reach_a_worker_and_return(tmp_path: Path, own_url: str) -> None:
    (tmp_path / "models_shop.py").write_text(SHOP)
    shop: Any = load_app(tmp_path, "models_shop", own_url)
    with shop.lw:
        order = shop.Order(id=7, lines={"pen": 2, "ink": 1})
        run = shop.lw.chain(shop.pack.call(order), shop.ship)
        packed, shipped = shop.pack.enqueue(order), shop.ship.enqueue(shop.Parcel(order, 3))
        chained = run.enqueue()
        with worker("models_shop:lw", "--burst", url=own_url, folder=tmp_path) as process:
            assert process.wait() == 0
        assert packed.result(0) == shop.Parcel(order, 3)
        assert shipped.result(0) == order
        assert chained.result(0) == order
