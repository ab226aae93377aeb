"""The faults of a run. Each seed draws its own mix: some runs have one kind of fault, others have all."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

MS = 1_000
SECOND = 1_000_000


@dataclass(frozen=True)
class Mix:
    """Probabilities of faults per call or message, and the numbers of incidents in a run."""

    unsent: float = 0.0
    """The connection breaks before the server receives the call."""
    unanswered: float = 0.0
    """The connection breaks after the server has run the call."""
    forged: float = 0.0
    """A stranger that may only listen and PUBLISH sends a forged wake-up to a process."""
    tardy: float = 0.0
    """The connection breaks on the client's side only: the call may still reach the server, up to ten seconds later."""
    slow: float = 0.0
    """The call or its answer takes up to 60 ms."""
    lost: float = 0.0
    """A wake-up is lost."""
    late: float = 0.0
    """A wake-up comes up to two seconds late."""
    twice: float = 0.0
    """A wake-up arrives twice."""
    kills: int = 0
    pauses: int = 0
    cancels: int = 0
    flushes: int = 0
    """The server forgets its scripts."""
    back: int = 0
    """The server's clock is set back by up to three hours."""
    forth: int = 0
    """The server's clock is set forward by up to three hours."""

    @property
    def quiet(self) -> bool:
        """True without lost calls, lost or late wake-ups, kills, pauses, cancellations, and clock steps."""
        calls = self.unsent or self.unanswered or self.lost or self.late
        return not (calls or self.kills or self.pauses or self.cancels or self.back or self.forth)


@dataclass(frozen=True)
class ListeningFaults:
    """Faults of subscriptions. A random generator of their own keeps them out of a seed's other faults."""

    hangups: int = 0
    """Times that a live process's subscription breaks, for up to eight seconds each.

    Its messages are lost meanwhile; afterwards all waiters of the process check again.
    """
    machines: bool = False
    """A killed process dies with its machine: the server counts it as a subscriber for up to another minute."""
    monitor: bool = False
    """A monitoring tool subscribes to every channel (PSUBSCRIBE), and PUBLISH counts it as a receiver."""


def listening(random: Random) -> ListeningFaults:
    """Draw the faults of subscriptions; half of the runs have none."""
    if random.random() < 0.5:
        return ListeningFaults()
    return ListeningFaults(random.randint(0, 4), random.random() < 0.5, random.random() < 0.5)


def draw(random: Random, stranger: Random) -> Mix:
    """Draw a mix; each kind of fault is absent from at least half of the runs."""

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
