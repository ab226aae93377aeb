"""Detect steps of the server's clock by comparing its replies with a monotonic clock; judge the deadlines of peers."""

from __future__ import annotations

TOLERANCE = 1.0
"""Steps of up to this many seconds are not detected."""
_DRIFT = 0.001
"""Maximum difference between the speeds of the two clocks, as a fraction."""


class ServerClock:
    """The offset of one server's clock from the client's, within bounds that every reply narrows; all in seconds."""

    __slots__ = ("_at", "_high", "_low")

    def __init__(self) -> None:
        self._at: float | None = None
        """Time of the bounds, on the client's clock; None before the first reply."""
        self._low = self._high = 0.0

    def heard(self, sent: float, received: float, server: float) -> float:
        """Process a reply with the server's time; return the step of the server's clock, 0.0 without a step.

        `sent` and `received` are on the client's clock: the server read its clock in between.
        """
        low, high, step = server - received, server - sent, 0.0
        if self._at is not None:
            drift = _DRIFT * (received - self._at)
            least, most = self._low - drift, self._high + drift
            if low > most + TOLERANCE:
                step = low - most
            elif high < least - TOLERANCE:
                step = high - least
            elif max(low, least) <= min(high, most):
                low, high = max(low, least), min(high, most)
        self._at, self._low, self._high = received, low, high
        return step


class Peers:
    """The other workers of one queue, seen by one worker's heartbeats; times are on the client's clock, in seconds.

    After an outage, and after a forward step of the server's clock, the leases of all sessions have expired at once. A
    live session sends a heartbeat within a lease. So a worker declares no session dead before its heartbeats have
    reached the server for a whole lease, without an outage or a step.
    """

    def __init__(self, lease: float) -> None:
        self._lease = lease
        self._clock = ServerClock()
        self._heard: float | None = None
        self._steady_since = 0.0

    def heard(self, sent: float, received: float, server: float) -> float:
        """Process the reply to a heartbeat; return the step of the server's clock, 0.0 without a step."""
        step = self._clock.heard(sent, received, server)
        if self._heard is None or received - self._heard > self._lease or step > 0:
            self._steady_since = received
        self._heard = received
        return step

    def patience(self, at: float) -> float:
        """Return the seconds until this worker may declare another worker dead; 0 or less: it may now."""
        return self._steady_since + self._lease - at
