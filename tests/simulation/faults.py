"""What goes wrong in a run: each seed draws its own mix, so that some runs know one kind of trouble and some all."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

MS = 1_000
SECOND = 1_000_000


@dataclass(frozen=True)
class Mix:
    """Chances per call or message, and how many incidents a run sees."""

    unsent: float = 0.0
    """The connection breaks before the server has the call."""
    unanswered: float = 0.0
    """It breaks after the server applied it."""
    forged: float = 0.0
    """A stranger, who has heard a wake-up, sends one of its own making to some process."""
    tardy: float = 0.0
    """It breaks on the client's side only: the call is still under way, and may arrive up to ten seconds later."""
    slow: float = 0.0
    """The call or its answer takes up to 60 ms."""
    lost: float = 0.0
    """A wake-up is lost."""
    late: float = 0.0
    """A wake-up comes up to two seconds late."""
    twice: float = 0.0
    """A wake-up comes twice."""
    kills: int = 0
    pauses: int = 0
    cancels: int = 0
    flushes: int = 0
    """The server forgets its scripts."""
    back: int = 0
    """The server's clock goes back by up to two seconds."""
    forth: int = 0
    """The server's clock goes forward by up to two seconds."""

    @property
    def quiet(self) -> bool:
        """Whether no call fails, no message is missing, and nothing happens to processes or the clock."""
        calls = self.unsent or self.unanswered or self.lost or self.late
        return not (calls or self.kills or self.pauses or self.cancels or self.back or self.forth)


@dataclass(frozen=True)
class ListeningFaults:
    """What goes wrong with listening; drawn apart, so that a seed's other trouble is what it was."""

    hangups: int = 0
    """A live process's subscription breaks, for up to eight seconds: its messages are lost, then it looks."""
    machines: bool = False
    """Who is killed dies with its machine: the server goes on counting it as a listener for up to a minute."""
    monitor: bool = False
    """Somebody hears every channel (PSUBSCRIBE), and PUBLISH counts it."""


def listening(random: Random) -> ListeningFaults:
    """Draw what goes wrong with listening: nothing at all in half of the runs."""
    if random.random() < 0.5:
        return ListeningFaults()
    return ListeningFaults(random.randint(0, 4), random.random() < 0.5, random.random() < 0.5)


def draw(random: Random, stranger: Random) -> Mix:
    """Draw a mix: every kind of trouble is absent from half of the runs."""

    def chance(most: float) -> float:
        return random.uniform(0, most) if random.random() < 0.5 else 0.0

    def count(most: int) -> int:
        return random.randint(1, most) if random.random() < 0.5 else 0

    return Mix(
        unsent=chance(0.2),
        unanswered=chance(0.2),
        slow=chance(0.3),
        lost=chance(0.5),
        late=chance(0.3),
        twice=chance(0.3),
        kills=count(3),
        pauses=count(3),
        cancels=count(4),
        flushes=count(2),
        back=1 if random.random() < 0.15 else 0,
        forth=1 if random.random() < 0.15 else 0,
        tardy=chance(0.2),
        forged=stranger.uniform(0, 0.5) if stranger.random() < 0.5 else 0.0,
    )
