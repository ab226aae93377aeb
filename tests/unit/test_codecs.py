"""Arguments and results on the wire: JSON with a size limit, converted to their annotations."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import IntEnum
from functools import partial
from typing import Any, Literal, ParamSpec, Required, TypedDict, Unpack
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from lockwork import ConfigError, PayloadTooLarge, ResultUnavailable
from lockwork.codecs import convert, decode, encode, exact, result
from lockwork.signatures import Signature

CAP = 1 << 20
DAY = date(2026, 11, 21)
P = ParamSpec("P")


@dataclass
class Order:
    buyer: str
    at: datetime


@pytest.mark.parametrize(
    "value", [None, True, 0, -1, 1.5, "", "ä\u0000\U0001f600", [1, [2]], {"a": {"b": None}}, 2**70]
)
def test_json_comes_back_as_it_was(value: object) -> None:
    assert decode(encode(value, "it", CAP)) == value


@pytest.mark.parametrize(
    "value",
    [
        Order("bob", datetime(2026, 11, 21, tzinfo=UTC)),
        Decimal("1.10"),
        UUID(int=7),
        {"a", "b"},
        b"bytes",
        (1, 2),
    ],
)
def test_annotated_types_are_restored(value: object) -> None:
    assert convert(decode(encode(value, "it", CAP)), type(value)) == value


@pytest.mark.parametrize("value", [object(), len, {1, object()}, "\udcff", {"a": "\udcff"}])
def test_values_that_json_cannot_hold(value: object) -> None:
    with pytest.raises(ConfigError, match="the arguments cannot be sent as JSON"):
        encode(value, "the arguments", CAP)


@pytest.mark.parametrize("value", [math.nan, math.inf, [-math.inf], {math.nan: 1}, [{"a": {-math.inf: 1}}]])
def test_non_finite_number_is_refused_and_not_turned_into_null(value: object) -> None:
    with pytest.raises(ConfigError, match="cannot be sent as JSON"):
        encode(value, "the arguments", CAP)


@pytest.mark.parametrize("value", [{"nan": 1, "inf": None}, {"-inf": "nan"}, ["a nan", {"b": 'inf":'}], {0.5: None}])
def test_values_that_resemble_references_are_sent(value: object) -> None:
    assert len(decode(encode(value, "it", CAP))) == len(value)  # type: ignore[arg-type]


def test_cyclic_value_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ConfigError, match="cannot be sent as JSON"):
        encode(loop, "it", CAP)


@pytest.mark.parametrize("depth", [300, 600, 900, 20_000])
def test_value_of_any_depth_is_encoded_or_refused(depth: int) -> None:
    value: list[Any] = [None]
    for _ in range(depth):
        value = [value]
    with suppress(ConfigError):  # how deep it may be is Python's affair
        assert encode(value, "it", CAP) == b"[" * (depth + 1) + b"null" + b"]" * (depth + 1)


class Nowhere(tzinfo):
    def utcoffset(self, when: datetime | None) -> None:
        raise LookupError("which zone?")

    def dst(self, when: datetime | None) -> None: ...

    def tzname(self, when: datetime | None) -> None: ...


def test_value_that_raises_during_encoding_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"the arguments cannot be sent as JSON: .*which zone\?"):
        encode(datetime(2026, 11, 21, tzinfo=Nowhere()), "the arguments", CAP)


def test_cap_counts_encoded_bytes() -> None:
    assert encode("x" * 8, "it", 10) == b'"xxxxxxxx"'
    with pytest.raises(PayloadTooLarge, match=r"it would be 11 bytes, and the limit is 10: send a reference"):
        encode("x" * 9, "it", 10)


@pytest.mark.parametrize("wire", [b"", b"{", b"\xff", b"nul", b"\x80\x04K\x01.", b"1 2"])
def test_text_that_is_not_json(wire: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever its text, the worker takes it as unreadable
        decode(wire)


def test_wrong_type_names_its_place() -> None:
    with pytest.raises(ValueError, match=r"\$\.at"):
        convert({"buyer": "bob", "at": "never"}, Order)


def sample(a: int, b: str = "x", *, at: datetime | None = None) -> Order: ...  # type: ignore[empty-body]


class Size(IntEnum):
    SMALL = 1


@dataclass
class Shelf:
    boxes: dict[int, list[dict[Size, str]]]


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ({1: "a", -2: "b"}, dict[int, str]),
        ({2**70: "a"}, dict[int, str]),
        ({1.5: 1, -0.0: 2}, dict[float, int]),
        ({Size.SMALL: 1}, dict[Size, int]),
        ({date(2026, 11, 21): 1}, dict[date, int]),
        ({UUID(int=7): 1}, dict[UUID, int]),
        ({1: 1}, dict[Literal[1, 2], int]),
        ({1: 1}, dict[int | None, int]),
        ({1: {2: {3: "x"}}}, dict[int, dict[int, dict[int, str]]]),
        ({1: "a"}, dict[int, str] | None),
        ([({1: "a"}, 2)], list[tuple[dict[int, str], int]]),
        (Shelf({1: [{Size.SMALL: "x"}]}), Shelf),
    ],
)
def test_keys_of_dicts_are_restored(value: Any, wanted: Any) -> None:
    def one(item: Any) -> Any: ...

    one.__annotations__ = {"item": wanted, "return": wanted}
    signature = Signature(one)
    encoded = encode([value], "it", CAP)
    args, kwargs = decode(encoded), {"item": decode(encoded)[0]}
    signature.convert(args, kwargs)
    for came in (args[0], kwargs["item"], result(encoded[1:-1], signature.returns, "job 1")):
        assert came == value


@pytest.mark.parametrize("value", [{True: 1}, {None: 1}, {(1, 2): 1}, {"a": [{(1,): 2}]}])
def test_keys_that_json_cannot_hold(value: object) -> None:
    with pytest.raises(ConfigError, match="it cannot be sent as JSON: Only dicts with str-like or number-like keys"):
        encode(value, "it", CAP)


@pytest.mark.parametrize(("value", "wanted"), [("1", int | None), (["1"], list[int]), ({"1": "2"}, dict[int, int])])
def test_text_is_a_number_only_as_a_key(value: object, wanted: Any) -> None:
    with pytest.raises(ValueError, match="Expected `int"):
        convert(value, wanted)


AMSTERDAM = datetime(1900, 1, 1, tzinfo=ZoneInfo("Europe/Amsterdam"))
ODD = timezone(timedelta(hours=1, seconds=30))


@dataclass
class Visit:
    at: datetime
    others: dict[datetime, list[datetime]]


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (AMSTERDAM, datetime),
        (datetime(2026, 1, 1, tzinfo=ODD), datetime | None),
        ([AMSTERDAM, datetime(2026, 1, 1)], list[datetime]),  # noqa: DTZ001
        (Visit(AMSTERDAM, {AMSTERDAM: [AMSTERDAM]}), Visit),
        (datetime(2026, 7, 1, tzinfo=ZoneInfo("Europe/Berlin")), datetime),
    ],
)
def test_datetime_stays_the_same_instant(value: Any, wanted: Any) -> None:
    def visit(at: Any, *rest: Any, by_name: Any = None, **others: Any) -> Any: ...

    visit.__annotations__ = dict.fromkeys(("at", "rest", "by_name", "others", "return"), wanted)
    signature = Signature(visit)
    assert signature.may_change is not None
    assert signature.result_may_change is not None
    args, kwargs = signature.exact((value, value), {"by_name": value, "other": value}, "it")
    sent = decode(encode([args, kwargs], "it", CAP))
    signature.convert(sent[0], sent[1])
    assert sent == [[value, value], {"by_name": value, "other": value}]


def test_time_whose_offset_json_cannot_hold_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"it cannot be sent as JSON: datetime\.time\(1, 0, .* has no offset in whole min"
    ):
        exact({"at": [time(1, tzinfo=ODD)]}, "it")
    for zoned in (time(1, tzinfo=ZoneInfo("Europe/Berlin")), [time(1, tzinfo=ZoneInfo("Europe/Berlin"))]):
        with pytest.raises(ConfigError, match="has no offset in whole minutes"):
            exact(zoned, "it")
    with pytest.raises(ConfigError, match="date value out of range"):
        exact(datetime.min.replace(tzinfo=ODD), "it")


def test_keys_with_the_same_text_are_refused_where_values_are_walked() -> None:
    for refused in (exact, partial(encode, cap=CAP)):
        with pytest.raises(ConfigError, match="two keys of a dict have the same text"):
            refused([None, {"1": 1, 1: 2}], "it")
    with pytest.raises(ConfigError, match="'x' cannot be used: as keys of a dict in JSON, str and the other types"):

        def count(x: list[dict[int | str, int]] | None = None) -> None: ...

        Signature(count).check_types(result=False)


def test_signature_refuses_wrong_calls() -> None:
    signature = Signature(sample)
    signature.check((1,), {})
    signature.check((1, "y"), {"at": None})
    signature.check((), {"a": 1})
    for args, kwargs in (((), {}), ((1, "y", "z"), {}), ((1,), {"a": 2}), ((1,), {"when": 3})):
        with pytest.raises(TypeError):
            signature.check(args, kwargs)


def test_signature_of_positional_arguments_only() -> None:
    signature = Signature(lambda a, b=2: None)
    signature.check((1,), {})
    signature.check((1, 2), {})
    for args in ((), (1, 2, 3)):
        with pytest.raises(TypeError):
            signature.check(args, {})


def test_signature_with_variadic_arguments_accepts_any_call() -> None:
    signature = Signature(lambda *args, **kwargs: None)
    signature.check((), {})
    signature.check((1, 2, 3), {"a": 4})


def test_arguments_are_converted_to_their_annotations() -> None:
    signature = Signature(sample)
    args: list[Any] = [1, "y"]
    kwargs = {"at": "2026-11-21T00:00:00Z"}
    signature.convert(args, kwargs)
    assert args == [1, "y"]
    assert kwargs["at"] == datetime(2026, 11, 21, tzinfo=UTC)
    assert signature.returns is Order


def test_positional_name_may_be_used_by_another_argument() -> None:
    def one(day: date, /, **others: Any) -> None: ...

    args: list[Any] = ["2026-11-21"]
    kwargs = {"day": "a text"}
    Signature(one).convert(args, kwargs)
    assert args == [DAY]
    assert kwargs == {"day": "a text"}


def days(first: date, text: str = "", *rest: date, note: str = "", **named: date) -> None: ...


def test_variadic_arguments() -> None:
    args: list[Any] = ["2026-11-21", "2026-11-21", "2026-11-21", "2026-11-21"]
    kwargs: dict[str, Any] = {"note": "2026-11-21", "last": "2026-11-21"}
    Signature(days).convert(args, kwargs)
    assert args == [DAY, "2026-11-21", DAY, DAY]
    assert kwargs == {"note": "2026-11-21", "last": DAY}
    with pytest.raises(ValueError, match="Invalid RFC3339"):
        Signature(days).convert(["2026-11-21", "", "never"], {})


class Span(TypedDict, total=False):
    since: Required[date]
    note: str


def test_arguments_that_a_typed_dict_describes() -> None:
    def spanned(**span: Unpack[Span]) -> None: ...

    kwargs: dict[str, Any] = {"since": "2026-11-21", "note": "2026-11-21"}
    Signature(spanned).convert([], kwargs)
    assert kwargs == {"since": DAY, "note": "2026-11-21"}


def wrapped(_: Callable[P, None]) -> Callable[P, None]:
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> None: ...

    return wrapper


def test_arguments_with_unconvertible_annotations_stay_unchanged() -> None:
    def many(*parts: bytes | str, **others: bytes | str) -> None: ...

    for function in (wrapped(many), many):
        args: list[Any] = ["as it was"]
        kwargs: dict[str, Any] = {"this": "too"}
        Signature(function).convert(args, kwargs)
        assert (args, kwargs) == (["as it was"], {"this": "too"})


def test_arguments_that_a_partial_leaves_open() -> None:
    for function, first in ((partial(sample, b="y"), [1]), (partial(sample, 1), [])):
        signature = Signature(partial(function))
        args, kwargs = list[Any](first), {"at": "2026-11-21T00:00:00Z"}
        signature.convert(args, kwargs)
        assert args == first
        assert kwargs["at"] == datetime(2026, 11, 21, tzinfo=UTC)
        assert signature.returns is Order


def test_argument_that_does_not_fit_its_annotation_is_refused() -> None:
    with pytest.raises(ValueError, match="Invalid RFC3339"):
        Signature(sample).convert([1], {"at": "never"})


@pytest.mark.parametrize(
    ("encoded", "wanted", "message"),
    [
        (b'"soon"', datetime, "datetime: "),
        (b"[1]", list[str], r"list\[str\]: Expected `str`"),
        (b"{}", Order, "Order: "),
        (b'"5"', int, "int: Expected `int`, got `str`"),
        (b"5", str, "str: "),
        (b"1.5", int, "int: "),
        (b"null", bool, "bool: "),
        (b"{}", list, "list: "),
        (b"[]", dict, "dict: "),
    ],
)
def test_result_of_another_type_is_unavailable(encoded: bytes, wanted: Any, message: str) -> None:
    with pytest.raises(ResultUnavailable, match=f"the result of job 1 does not match its annotation {message}"):
        result(encoded, wanted, "job 1")


def test_result_is_converted_to_its_annotation() -> None:
    order = Order("bob", datetime(2026, 11, 21, tzinfo=UTC))
    assert result(encode(order, "it", CAP), Order, "job 1") == order
    assert [result(b"5", wanted, "job 1") for wanted in (int, Any, None, object)] == [5] * 4
    assert type(result(b"1", float, "job 1")) is float
    assert result(b"true", int, "job 1") is True
