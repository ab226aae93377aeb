"""Output of the demo during the sale."""

from __future__ import annotations

import io
import os
from collections import Counter

import pytest
from rich.console import Console

from lockwork.protocol.queue.status import QueueStatus
from lockwork.protocol.stock.stock import StockStatus
from play.live import LiveScreen, Stacked
from play.load import Load, Seen
from play.screen import Moment, PlainScreen, counted

MOMENT = Moment(
    seconds=7.0,
    phase="buyers come",
    seen=Seen(buyers=1200, requests=2000),
    stock=StockStatus(total=20, available=5, reserved=5, sold=10, expired=3),
    jobs=QueueStatus(
        ready=1, scheduled=2, running=3, dead=0, enqueued=40, succeeded=34, failed=0, retried=0, recovered=0
    ),
    orders=Counter(placed=18, paid=10, expired=3),
)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_terminal_shows_bars(width: int) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=width, height=20, _environ={})
    with LiveScreen(console, 3000) as screen:
        screen.show(MOMENT)
        screen.say("a worker was killed")
        with console.capture() as captured:
            console.print(screen.picture())
    text = captured.get()
    for part in ("1,200 of 3,000", "2,000 requests", "10 sold", "5 reserved", "5 on sale", "13 of 18 settled"):
        assert part in text
    assert "a worker was killed" in text


def test_parts_of_a_bar_differ_without_colour() -> None:
    console = Console(file=io.StringIO(), width=20)
    with console.capture() as captured:
        console.print(Stacked([(10, "green"), (5, "yellow"), (5, "white")]))
    assert captured.get().strip() == "█" * 10 + "▓" * 5 + "░" * 5


def test_empty_stock_shows_an_empty_bar() -> None:
    console = Console(file=io.StringIO(), width=20)
    with console.capture() as captured:
        console.print(Stacked([(0, "green"), (0, "yellow"), (0, "white")]))
    assert captured.get().strip() == ""


def test_file_gets_occasional_lines() -> None:
    file = io.StringIO()
    with PlainScreen(file, 3000) as screen:
        screen.show(MOMENT)
        screen.show(MOMENT)
        screen.say("a worker was killed")
    assert file.getvalue().splitlines() == [
        "  7.0 s  1,200 of 3,000 buyers served, 10 of 20 phones sold, 13 of 18 orders settled",
        "  7.0 s  a worker was killed",
    ]


def test_screen_without_an_output_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with PlainScreen(None, 3000) as screen:
        screen.show(MOMENT)
        screen.say("a worker was killed")
    assert capfd.readouterr() == ("", "")


def test_reports_may_come_in_pieces() -> None:
    reading, writing = os.pipe()
    try:
        crowd = Load(reading)
        os.write(writing, b'{"buyers": 1, "requests": 2}\n{"buyers": 3, "requests"')
        assert crowd.read() == Seen(buyers=1, requests=2)
        os.write(writing, b': 4, "other": 5}\n')
        assert crowd.read() == Seen(buyers=3, requests=4)
        os.close(writing)
        assert crowd.read() == Seen(buyers=3, requests=4)
        assert crowd.gone
    finally:
        os.close(reading)


def test_counted_uses_the_singular_for_one() -> None:
    assert [counted(number, "job") for number in (0, 1, 2000)] == ["0 jobs", "1 job", "2,000 jobs"]
