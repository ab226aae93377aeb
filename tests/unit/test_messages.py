"""Parsing of messages: no bytes make a parser raise, and only sealed messages carry data."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lockwork.protocol import messages
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.messages import Hints
from lockwork.protocol.queue import leases
from lockwork.protocol.queue.leases import Batch, Leased
from lockwork.runtime.wakeups import Mailboxes

_KEYS = QueueKeys("lw", "q")
_SECRET = "a secret"
_ODD = st.one_of(
    st.binary(max_size=300),
    st.text(st.sampled_from("0123456789abcdef ~-.,;٣\x00"), max_size=120).map(str.encode),
    st.lists(st.integers(-(10**30), 10**30).map(str), max_size=6).map(lambda words: " ".join(words).encode()),
)


@given(_ODD)
@example(b"9" * 5000 + b" " + b"9" * 5000)
@example(b"x" * 200_000)
def test_arbitrary_bytes_make_no_parser_raise(message: bytes) -> None:
    ticket, text = messages.split(message)
    sealed = f"{messages.seal(_SECRET, _KEYS.jobs, text)} {text}"
    for candidate in (text, sealed):
        offer = leases.offered(_KEYS, Batch([], None, 0, _SECRET), candidate)
        assert offer is None or (candidate is sealed and isinstance(offer, Leased))
        for count in (1, 2):
            read = messages.numbers(_SECRET, _KEYS.jobs, candidate, count)
            assert read is None or (candidate is sealed and len(read) == count)
    Mailboxes().deliver(ticket, text)


@given(_ODD, st.integers(0, 400), st.integers(1, 255))
def test_changed_message_is_only_a_hint(words: bytes, at: int, by: int) -> None:
    text = words.decode(errors="surrogateescape")
    sealed = f"{messages.seal(_SECRET, 'ticket', text)} {text}".encode(errors="surrogateescape")
    assert messages.opened(_SECRET, "ticket", sealed.decode(errors="surrogateescape")) == text
    at %= len(sealed)
    changed = sealed[:at] + bytes([sealed[at] ^ by]) + sealed[at + 1 :]
    assert messages.opened(_SECRET, "ticket", changed.decode(errors="surrogateescape")) is None
    assert messages.opened(_SECRET, "other", sealed.decode(errors="surrogateescape")) is None
    assert messages.opened("", "ticket", f"{messages.seal('', 'ticket', text)} {text}") is None


def test_message_without_seal_is_logged_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "_reported", [])
    for text in ("", "look", "x", "y", "1 2"):
        assert messages.numbers(_SECRET, "ticket", text, 2) is None
    assert [record.args for record in caplog.records] == [("x",)]


def test_hints_are_followed_at_once_until_there_are_too_many() -> None:
    hints, now = Hints(), 1000.0
    followed = [hints.take(now) == now for _ in range(300)]
    assert followed == [True] * 100 + [False] * 200
    assert now < hints.take(now) <= now + 0.021
    assert sum(hints.take(now + ms / 1000) <= now + ms / 1000 for ms in range(1000)) in (49, 50, 51)
    hints.refund()
    assert hints.take(now + 1.0) == now + 1.0


def test_unclaimed_messages_are_bounded_in_size() -> None:
    mail = Mailboxes()
    for number in range(2000):
        mail.deliver(f"ticket {number}", "x" * 20_000)
    assert len(mail._early) < 60
    assert mail._size == sum(len(ticket) + len(text) for ticket, text in mail._early.items())
    assert mail.open("ticket 1999", lambda _: None) == "x" * 20_000
