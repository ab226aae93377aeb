"""Names of users' data: stored without the special characters of keys and records, and displayed unchanged."""

from __future__ import annotations

from enum import Enum
from hashlib import sha256

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lockwork import ConfigError
from lockwork.partitions import numbered
from lockwork.protocol import keys, names, slots
from lockwork.protocol.queue import record_header

SPECIAL = " \t\n\r\x0b\x0c\x1c\x00\x1b\x7f\x85\x9f\u00a0\u2028\u3000%,;{}/~.>*?[]\\'\"<&:"
nasty = st.one_of(
    st.text(alphabet=SPECIAL + "0123456789abcdefABCDEF", max_size=80),
    st.text(max_size=250),
    st.text(alphabet=st.characters(), max_size=40),
    st.text(alphabet=st.characters(categories=["Cs", "Lu"]), max_size=20),
    st.text(min_size=150, max_size=250, alphabet="ab% \u00e9\U0001f600"),
    # texts that read like an escaped, or like a hashed name
    st.builds(lambda text: names.stored(text), st.text(max_size=250)),
    st.builds(lambda text: names.display(text), st.text(min_size=190, max_size=250)),
    st.builds(lambda text: names.display("a" * 200 + text), st.text(min_size=1, max_size=9)),
)


@given(nasty)
@example("%")
@example("")
@example("%20")
@example("%~" + "0" * 40)
@example("a... sha256:" + "0" * 40)
@example("\ud83d\ude00")
def test_stored_name_is_read_back(name: str) -> None:
    shown = names.shown(names.stored(name))
    assert shown == names.display(name)
    if shown != name:
        beginning, _, digits = shown.rpartition("... sha256:")
        assert digits == sha256(name.encode(errors="surrogatepass")).hexdigest()[:40]
        assert all(sign in ("\ufffd", own) for sign, own in zip(beginning, name, strict=False))


@given(nasty)
def test_stored_name_has_no_sign_that_means_something(name: str) -> None:
    stored = names.stored(name)
    assert 1 <= len(stored.encode()) <= 200
    assert not any(sign.isspace() or sign in ",;{}" or "\x7f" <= sign <= "\x9f" or sign < "!" for sign in stored)


@given(nasty, nasty)
@example("a b", "a%20b")
@example("", "%")
@example("\ud83d\ude00", "\U0001f600")
@example("x" * 201, "x" * 202)
@example("x" * 201, names.display("x" * 201))
@example("x" * 201, names.stored("x" * 201))
@example("\ud800", names.display("\ud800"))
@example("\ud800", "\ud801")
def test_different_names_are_stored_and_shown_differently(one: str, other: str) -> None:
    assert (names.stored(one) == names.stored(other)) == (one == other)
    assert (names.display(one) == names.display(other)) == (one == other)


@given(nasty)
@example(names.display("x" * 300))
def test_shown_name_means_the_stored_one_again(name: str) -> None:
    stored = names.stored(name)
    assert names.stored(names.typed(names.shown(stored))) == stored


@given(nasty)
@example("\ud800")
def test_shown_name_can_be_written_anywhere(name: str) -> None:
    assert names.display(name).encode().decode() == names.display(name), "no lone surrogates"


@pytest.mark.parametrize(
    "name", ["order:42", "a/b", "a*b?[c]", "..", "-~!$&'()+=@^_`|<>\\\"#", "x" * 200, "\u00e9t\u00e9"]
)
def test_ordinary_name_is_stored_as_it_is(name: str) -> None:
    assert names.stored(name) == name


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("a b", "a%20b"),
        ("100%", "100%25"),
        ("a,b;c", "a%2Cb%3Bc"),
        ("{a}", "%7Ba%7D"),
        ("\n", "%0A"),
        ("\u2028", "%E2%80%A8"),
        ("\x85", "%C2%85"),
        ("", "%"),
        ("x" * 201, "x" * 64 + "%~" + sha256(b"x" * 201).hexdigest()[:40]),
        (" " * 201, "%20" * 21 + "%~" + sha256(b" " * 201).hexdigest()[:40]),
        ("\u00e9" * 101, "\u00e9" * 32 + "%~" + sha256("\u00e9".encode() * 101).hexdigest()[:40]),
    ],
)
def test_documented_form(name: str, stored: str) -> None:
    assert names.stored(name) == stored


def test_long_name_is_shown_by_its_beginning_and_its_hash() -> None:
    assert names.display("ab " * 100) == "ab " * 12 + "ab" + f"... sha256:{sha256(b'ab ' * 100).hexdigest()[:40]}"


def test_text_that_is_no_plain_string_is_stored_by_its_value() -> None:
    class Safe(str):
        __slots__ = ()

        def __str__(self) -> str:
            return "other"

    class Color(str, Enum):  # noqa: UP042 - of which str() is the name
        RED = "red or so"

    assert (names.stored(Safe("a")), type(names.stored(Safe("a")))) == ("a", str)
    assert names.stored(Safe("a b")) == "a%20b"
    assert names.stored(Color.RED) == "red%20or%20so"


@pytest.mark.parametrize("name", [None, 5, b"a", ["a"], 1.5])
def test_name_that_is_no_text_is_refused(name: object) -> None:
    with pytest.raises(ConfigError, match="a lock's name must be text, not "):
        names.checked_name(name, "a lock's name")


@pytest.mark.parametrize("stored", ["%", "%zz", "%F", "%FF", "%ED%A0%80", "%20%", "%~", "%~abc", "a%~" + "G" * 40])
def test_foreign_name_is_shown_somehow(stored: str) -> None:
    assert names.shown(stored).encode().decode().replace(" ", "%20") == stored.replace(" ", "%20") or stored == "%"


@given(nasty)
def test_hash_tag_of_a_key_is_the_whole_name(name: str) -> None:
    for key in (
        keys.lock("lw", name),
        keys.quorum("lw", name),
        keys.semaphore("lw", name),
        keys.rwlock("lw", name),
        keys.once("lw", name),
        keys.fenced("lw", name),
        *keys.limiter("lw", name),
        keys.barrier("lw", name).places,
        keys.latch("lw", name).logs[1],
        keys.delay_queue("lw", name).state,
    ):
        tag = slots.tag_of(key)
        assert tag.partition(":")[2] == names.stored(name)
    queue = keys.QueueKeys("lw", "mail")
    for key in (queue.lock(name), *queue.stock(name), queue.stock_deleted(name)):
        assert slots.tag_of(key) == "q:mail"


@given(nasty, nasty, nasty)
def test_names_in_a_header_are_read_back(key: str, group: str, unique: str) -> None:
    stored = [names.stored(name) for name in (key, group, unique)]
    header = record_header.head(1, 3, stored[0], stored[1], unique=f"dtask/{stored[2]}")
    assert list(record_header.names(header + b'["task",[",;{}"]]')) == stored
    assert record_header.key(header) == stored[0].encode()


@given(nasty, st.integers(1, 256))
def test_partition_is_decided_by_the_stored_text(name: str, count: int) -> None:
    assert 0 <= numbered(names.stored(name), count) < count
