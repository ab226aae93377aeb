"""When a worker's heartbeat may call the session of another worker dead."""

from __future__ import annotations

from lockwork.protocol.server_clock import ServerClock


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
