"""Steps of the server's clock, noticed by comparing its replies with a monotonic clock, and the deadlines of peers."""

from __future__ import annotations

TOLERANCE = 1.0
"""Seconds of a step that are not noticed."""
_DRIFT = 0.001
"""How much faster or slower one clock may run than the other."""


class ServerClock:
    """The offset of one server's clock from the client's, within bounds that every reply narrows; all in seconds."""

    __slots__ = ("_at", "_high", "_low")

    def __init__(self) -> None:
        self._at: float | None = None
        """When the bounds were known, on the client's clock; None before the first reply."""
        self._low = self._high = 0.0

    def heard(self, sent: float, received: float, server: float) -> float:
        """Note a reply that carries the server's time; returns by how much the clock was stepped, 0.0 when it was not.

        `sent` and `received` are on the client's clock: the server read its own in between.
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
    """The other workers of one queue, as one heartbeat sees them; times are on the client's clock, in seconds.

    After an outage, and after a forward step of the server's clock, the leases of all sessions have run out at once. A
    session that is alive beats again within a lease. So a heartbeat calls nobody dead before it has reached the server
    for a whole lease without either.
    """

    def __init__(self, lease: float) -> None:
        self._lease = lease
        self._clock = ServerClock()
        self._heard: float | None = None
        self._steady_since = 0.0

    def heard(self, sent: float, received: float, server: float) -> float:
        """Note the answer to a beat; returns by how much the server's clock was stepped, 0.0 when it was not."""
        step = self._clock.heard(sent, received, server)
        if self._heard is None or received - self._heard > self._lease or step > 0:
            self._steady_since = received
        self._heard = received
        return step

    def patience(self, at: float) -> float:
        """Seconds until this worker may call another one dead; 0 or less: it may."""
        return self._steady_since + self._lease - at
