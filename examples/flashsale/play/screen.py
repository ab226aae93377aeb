"""What a viewer sees while the sale is on, where there is no terminal: a few plain lines, or nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Protocol, Self, TextIO

from lockwork.types import QueueStatus, StockStatus
from play.load import Seen


@dataclass(frozen=True, slots=True)
class Moment:
    """One look at the sale; `orders` counts the ledger's lines by event."""

    seconds: float
    phase: str
    seen: Seen
    stock: StockStatus
    jobs: QueueStatus
    orders: Counter[str]

    @property
    def settled(self) -> int:
        """Orders that are paid, or closed because nobody paid."""
        return self.orders["paid"] + self.orders["expired"]


def counted(count: int, noun: str) -> str:
    """A number with its noun."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


class Screen(Protocol):
    """Shows a sale; entered before it begins, left when it is over or has failed."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def show(self, moment: Moment) -> None:
        """Show how far the sale is."""

    def say(self, text: str) -> None:
        """Tell of something that happened."""


class PlainScreen:
    """Writes a line every few seconds, and one when something happens; without a file it writes nothing."""

    EVERY = 5.0

    def __init__(self, file: TextIO | None, buyers: int) -> None:
        self._file = file
        self._buyers = buyers
        self._shown = 0.0
        self._seconds = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, moment: Moment) -> None:
        """Write how far the sale is, if that was not written just now."""
        self._seconds = moment.seconds
        if moment.seconds - self._shown >= self.EVERY:
            self._shown = moment.seconds
            seen, stock = moment.seen, moment.stock
            self.say(
                f"{seen.buyers:,} of {self._buyers:,} buyers served, {stock.sold:,} of {stock.total:,} phones sold, "
                f"{moment.settled:,} of {moment.orders['placed']:,} orders settled"
            )

    def say(self, text: str) -> None:
        """Write it."""
        if self._file is not None:
            print(f"{self._seconds:5.1f} s  {text}", file=self._file, flush=True)
