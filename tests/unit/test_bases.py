"""Values of subclasses are sent as their base, regardless of overrides."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import attrs
import pytest
from django.utils.safestring import mark_safe
from pydantic import BaseModel, SecretStr

from lockwork import ConfigError
from lockwork.codecs import convert, decode, encode
from lockwork.signatures import Signature
from lockwork.tasks.unique import Unique

CAP = 1 << 20


class Safe(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "another text"


class Count(int):
    def __int__(self) -> int:
        return 99

    def __index__(self) -> int:
        return 99


class Price(Decimal):
    def __str__(self) -> str:
        return "free"


class Moment(datetime):
    @property
    def year(self) -> int:
        return 1


class Day(date): ...


class Clock(time): ...


class Span(timedelta):
    @property
    def seconds(self) -> int:
        return -1


class Key(UUID): ...


class Order(BaseModel):
    id: int
    code: SecretStr = SecretStr("")


class Blob(bytes): ...


class Weight(float): ...


CET = timezone(timedelta(hours=1))


@pytest.mark.parametrize(
    ("value", "base"),
    [
        (mark_safe("<b>"), "<b>"),
        (Safe("a"), "a"),
        (Count(5), 5),
        (Weight(1.5), 1.5),
        (Price("1.10"), Decimal("1.10")),
        (Moment(2026, 10, 25, 2, 30, 1, 5, CET, fold=1), datetime(2026, 10, 25, 2, 30, 1, 5, CET)),
        (Day(2026, 1, 2), date(2026, 1, 2)),
        (Clock(1, 2, 3, 4, CET), time(1, 2, 3, 4, CET)),
        (Span(-3, 4, 5), timedelta(-3, 4, 5)),
        (Key(int=7), UUID(int=7)),
        (Blob(b"\xff"), b"\xff"),
    ],
)
def test_value_of_a_subclass_is_sent_as_its_base(value: Any, base: Any) -> None:
    for sent, wanted, kind in (
        (value, base, type(base)),
        ([value], [base], list[type(base)]),  # type: ignore[misc]
        ({value: value}, {base: base}, dict[type(base), type(base)]),  # type: ignore[misc]
    ):
        back = convert(decode(encode(sent, "it", CAP)), kind)
        assert back == wanted
    assert type(convert(decode(encode(value, "it", CAP)), type(base))) is type(base)


def test_unique_name_is_the_same_for_a_subclass_and_its_base() -> None:
    def book(at: datetime, count: int, order: Order) -> None: ...

    unique = Unique.read({"unique": True})
    assert unique is not None
    name = unique.marking("book", book, frozenset())
    at, order = datetime(2026, 1, 2, tzinfo=UTC), Order(id=1)
    assert name(Moment(2026, 1, 2, tzinfo=UTC), Count(5), order) == name(at, 5, order)
    assert name(at, 6, order) != name(at, 5, order) != name(at, 5, Order(id=2))


class Frozen(type):
    """Like `datetime` in programs that freeze the time: real values count as instances."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, datetime)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, datetime)


class FrozenDatetime(datetime, metaclass=Frozen): ...


def test_class_that_stands_for_its_base_may_be_an_annotation() -> None:
    def at(moment: Any, more: Any) -> None: ...

    at.__annotations__ |= {"moment": FrozenDatetime, "more": list[FrozenDatetime]}
    signature = Signature(at)
    signature.check_types(result=False)
    args: list[Any] = ["2026-01-02T00:00:00Z", ["2026-01-02T00:00:00Z"]]
    signature.convert(args, {})
    assert args == [datetime(2026, 1, 2, tzinfo=UTC), [datetime(2026, 1, 2, tzinfo=UTC)]]


@pytest.mark.parametrize(("kind", "base"), [(Safe, "str"), (Moment, "datetime"), (Count, "int")])
def test_subclass_as_an_annotation_is_refused_with_its_base(kind: type, base: str) -> None:
    def take(value: Any) -> None: ...

    take.__annotations__["value"] = kind
    with pytest.raises(ConfigError, match=f"a {kind.__name__} arrives as {base}: use that as the annotation"):
        Signature(take).check_types(result=False)


class Number:
    """Like NumPy's integers: not a subclass of int."""

    shape: tuple[int, ...] = ()

    def __index__(self) -> int:
        return 7


class Array(Number):
    shape = (1,)


class Flag:
    """Like NumPy's bool and smaller floats."""

    shape, dtype = (), type("dtype", (), {"kind": "b"})

    def item(self) -> Any:
        return True


class Long(Flag):
    """Like NumPy's longdouble, whose item is not a float."""

    def item(self) -> Any:
        return self


def test_numbers_that_are_no_numbers_of_python_are_sent() -> None:
    assert decode(encode([Number(), {Number(): Flag()}], "it", CAP)) == [7, {"7": True}]
    for refused in (Array(), Long(), {Flag(): 1}, Number):
        with pytest.raises(ConfigError, match="it cannot be sent as JSON: "):
            encode(refused, "it", CAP)


def test_attrs_class_with_a_private_attribute_is_refused() -> None:
    @attrs.define
    class Parcel:
        weight: int
        _owner: str = "bob"

    @attrs.define
    class Cached:
        weight: int
        _text: str = attrs.field(init=False, default="")

    def ship(parcel: Any = None) -> None: ...

    ship.__annotations__["parcel"] = list[Parcel]
    with pytest.raises(ConfigError, match="the private attribute _owner of .*Parcel is not sent: rename it"):
        Signature(ship).check_types(result=False)
    ship.__annotations__["parcel"] = list[Cached]
    Signature(ship).check_types(result=False)
