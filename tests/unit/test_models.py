"""Pydantic models and attrs classes as arguments and results survive a round trip."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import attrs
import pytest
from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    SecretBytes,
    SecretStr,
    computed_field,
    field_serializer,
)

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


def test_model_error_names_the_field() -> None:
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


def test_class_itself_is_no_model() -> None:
    with pytest.raises(ConfigError, match="cannot be sent as JSON: Encoding objects of type ModelMetaclass"):
        encode(Order, "it", CAP)


class Account(BaseModel):
    name: str
    password: SecretStr
    keys: list[SecretBytes] = []
    since: datetime | None = None


class Session(BaseModel):
    accounts: dict[str, Account]


@dataclass
class Vault:
    code: SecretStr
    session: Session | None = None


ACCOUNT = Account(name="bob", password=SecretStr("hunter2"), keys=[SecretBytes(b"k\xc3\xa4")])
SESSION = Session(accounts={"a": ACCOUNT})


@pytest.mark.parametrize("value", [ACCOUNT, SESSION, [SESSION], SecretStr("x"), Vault(SecretStr("y"), SESSION)])
def test_secrets_arrive_only_if_they_are_revealed(value: Any) -> None:
    with pytest.raises(ConfigError, match="a Secret.* is sent only by a task with hide_arguments=True"):
        encode(value, "it", CAP)
    back = convert(decode(encode(value, "it", CAP, reveal=True)), list[Session] if type(value) is list else type(value))
    assert back == value


def test_secret_in_a_field_without_a_type_is_refused() -> None:
    class Loose(BaseModel):
        model_config = ConfigDict(extra="allow")
        anything: Any = None

    for value in (Loose(anything=SecretStr("x")), Loose(more=[{"a": SecretStr("x")}])):  # type: ignore[call-arg]
        with pytest.raises(ConfigError, match="hide_arguments=True"):
            encode(value, "it", CAP)
    assert decode(encode(Loose(anything="**********"), "it", CAP)) == {"anything": "**********"}


def test_model_that_serializes_its_own_secret_is_sent() -> None:
    class Token(BaseModel):
        value: SecretStr

        @field_serializer("value", when_used="json")
        def shown(self, value: SecretStr) -> str:
            return value.get_secret_value()

    with Lockwork("redis://127.0.0.1:1", patience=0) as lw:

        @lw.task
        def use(token: Token) -> None: ...

        use.call(Token(value=SecretStr("x")))
    assert convert(decode(encode(Token(value=SecretStr("x")), "it", CAP)), Token) == Token(value=SecretStr("x"))


@pytest.mark.parametrize("kind", [SecretStr, Account, list[Session], Vault, Account | None])
def test_task_with_secrets_must_hide_its_arguments(kind: Any) -> None:
    def log_in(account: Any = None) -> None: ...
    def open_account() -> Any: ...

    log_in.__annotations__["account"] = open_account.__annotations__["return"] = kind
    with Lockwork("redis://127.0.0.1:1", patience=0) as lw:
        with pytest.raises(
            ConfigError, match="annotation of 'account' cannot be used: Secret.* is a secret: set hide_"
        ):
            lw.task(log_in)
        lw.task(hide_arguments=True)(log_in)
        with pytest.raises(ConfigError, match="its result cannot be sent: Secret.* is a secret"):
            lw.task(hide_arguments=True)(open_account)
        lw.task(keep_result=False)(open_account)


def test_excluded_field_with_a_value_is_refused() -> None:
    class Cached(BaseModel):
        name: str
        cache: int = Field(default=1, exclude=True)
        notes: list[str] = Field(default_factory=list, exclude=True)

    class Shelf(BaseModel):
        items: list[Cached]

    for sent in (Cached(name="a"), Cached(name="a", cache=1)):
        assert convert(decode(encode(Shelf(items=[sent]), "it", CAP)), Shelf) == Shelf(items=[sent])
    for lost in (Cached(name="a", cache=2), Cached(name="a", notes=["b"])):
        with pytest.raises(
            ConfigError, match="field '(cache|notes)' of .*Cached is excluded from JSON, but has a value"
        ):
            encode({"x": Shelf(items=[lost])}, "it", CAP)


def test_model_whose_json_cannot_be_read_again_is_refused() -> None:
    class TwoNames(BaseModel):
        a: int = Field(default=1, validation_alias="x", serialization_alias="y")

    class Chosen(BaseModel):
        a: int = Field(default=1, validation_alias=AliasChoices("x", "y"), serialization_alias="y")

    class Required(BaseModel):
        a: int = Field(exclude=True)

    def read(model: Any = None) -> None: ...

    with Lockwork("redis://127.0.0.1:1", patience=0) as lw:

        class Encoded(BaseModel):
            model_config = ConfigDict(ser_json_bytes="base64")
            a: bytes

        read.__annotations__["model"] = Encoded
        with pytest.raises(ConfigError, match="Encoded has another ser_json_bytes than val_json_bytes"):
            lw.task(read)
        for kind, why in (
            (TwoNames, "is sent as 'y', but read as 'x'"),
            (list[Required], "is excluded from JSON, but"),
        ):
            read.__annotations__["model"] = kind
            with pytest.raises(ConfigError, match=f"the annotation of 'model' cannot be used: field 'a' of .* {why}"):
                lw.task(read)
        read.__annotations__["model"] = Chosen
        lw.task(read)
    assert convert(decode(encode(Chosen(y=3), "it", CAP)), Chosen).a == 3  # type: ignore[call-arg]


def test_zoned_time_of_day_in_a_model_is_refused() -> None:
    class Shop(BaseModel):
        opens: time

    with pytest.raises(ConfigError, match="has no offset in whole minutes"):
        encode(Shop(opens=time(9, tzinfo=ZoneInfo("Europe/Berlin"))), "it", CAP)
    assert decode(encode(Shop(opens=time(9)), "it", CAP)) == {"opens": "09:00:00"}


def test_enqueue_refuses_a_zoned_time_of_day() -> None:
    with Lockwork("redis://127.0.0.1:1", patience=0) as lw:

        @lw.task
        def open_shop(at: time, *others: time) -> None: ...

        for times in ((time(9, tzinfo=ZoneInfo("Europe/Berlin")),), (time(9), time(9, tzinfo=ZoneInfo("Asia/Tokyo")))):
            with pytest.raises(
                ConfigError, match="the arguments of task 'open_shop' cannot be sent .* has no offset in"
            ):
                open_shop.call(*times)
        open_shop.call(time(9))


def test_instant_with_odd_offset_in_a_model_is_kept() -> None:
    for zone in (ZoneInfo("Europe/Amsterdam"), timezone(timedelta(hours=1, seconds=30))):
        account = ACCOUNT.model_copy(update={"since": datetime(1900, 1, 1, tzinfo=zone)})
        session = Session(accounts={"a": account})
        assert convert(decode(encode(session, "it", CAP, reveal=True)), Session) == session


def test_tasks_take_and_return_models() -> None:
    with Lockwork("redis://127.0.0.1:1", patience=0) as lw:

        @lw.task
        def pack(order: Order, *more: Order, parcel: Parcel | None = None) -> Parcel: ...  # type: ignore[empty-body]

        @lw.task(batch=10)
        def total(orders: list[Order]) -> list[Item]: ...  # type: ignore[empty-body]


SHOP = """
from datetime import datetime
from zoneinfo import ZoneInfo
from attrs import define
from lockwork import Lockwork
from pydantic import BaseModel, SecretStr

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


class Login(BaseModel):
    user: str
    password: SecretStr


@lw.task(hide_arguments=True)
def log_in(login: Login, code: SecretStr) -> str:
    return login.password.get_secret_value() + code.get_secret_value()


@lw.task
def founded() -> datetime:
    return datetime(1900, 1, 1, tzinfo=ZoneInfo("Europe/Amsterdam"))


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
        since = shop.founded.enqueue()
        opened = shop.log_in.enqueue(shop.Login(user="bob", password="a"), SecretStr("b"))
        with worker("models_shop:lw", "--burst", url=own_url, folder=tmp_path) as process:
            assert process.wait() == 0
        assert packed.result(0) == shop.Parcel(order, 3)
        assert shipped.result(0) == order
        assert chained.result(0) == order
        assert opened.result(0) == "ab"
        assert since.result(0) == datetime(1900, 1, 1, tzinfo=ZoneInfo("Europe/Amsterdam"))
