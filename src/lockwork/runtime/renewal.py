"""Lease work of the engine's thread: renews due leases, and releases grants on request."""

from __future__ import annotations

from collections import deque
from functools import partial
from itertools import groupby
from weakref import WeakSet

from lockwork import words
from lockwork.errors import LockworkError, ServerRefused
from lockwork.logs import Log
from lockwork.protocol.locks import grants
from lockwork.protocol.locks.grants import Refusal
from lockwork.protocol.locks.leases import Lease, LeaseBook
from lockwork.protocol.server_clock import ServerClock
from lockwork.runtime.clock import now
from lockwork.runtime.replies import unforeseen
from lockwork.runtime.sync_driver import SyncDriver

log: Log = Log("lockwork")

_BATCH = 100
"""Leases per renewal call when there are many; always fewer than twice this number."""
_TIMEOUT = 2.0
_FAILING = 0.5
"""Time limit in seconds for calls to shards of a Cluster after one failed to answer: wake-ups wait meanwhile."""
_LEAST = 0.25
"""Minimum seconds for a call, even if a lease ends earlier: its holder is then notified later by this amount."""
_AGAIN = 0.1
"""Seconds that a failed call is retried at once: an idle connection may have broken long ago."""


class Renewing:
    """Renews the leases of a book, with a separate driver."""

    def __init__(self, book: LeaseBook, driver: SyncDriver) -> None:
        self._book = book
        self._driver = driver
        self.back: deque[tuple[Lease, tuple[int, ...]]] = deque()
        """Leases to release, with additional arguments of their release scripts; any thread may append."""
        self._refused: WeakSet[Lease] = WeakSet()
        """Leases that the server refused to renew the last time; they block the renewal of others in the same call."""
        self._clocks: dict[object, ServerClock] = {}
        """Clocks by server: the servers of a Cluster may disagree."""
        self._failing: set[object] = set()
        """Servers of a Cluster that did not answer the last time."""
        self._traced = False
        """True if the log already has the traceback of a lasting problem."""

    def renew(self) -> bool:
        """Renew due leases; return True if the server answered any renewal."""
        batches: list[list[Lease]] = []
        for _, due in groupby(sorted(self._book.due(now()), key=self._batch), key=self._batch):
            leases = list(due)
            calls = max(1, len(leases) // _BATCH)
            batches += [leases[at::calls] for at in range(calls)]
        if self._driver.clustered and len(batches) > 1:
            return self._renew_together(batches)
        for number, batch in enumerate(batches):
            if not self._renew_batch(batch):
                return number > 0  # the other leases are also due soon, and time is short
        return bool(batches)

    def _renew_together(self, batches: list[list[Lease]]) -> bool:
        """Renew with one round trip per shard: an unresponsive shard does not block renewals on the others."""
        self.limit()
        wishes = [[lease.wish for lease in batch] for batch in batches]
        try:
            replies = self._driver.run(grants.renew_together(wishes, _AGAIN, self._heard))
        except Exception as error:  # noqa: BLE001 - as below
            replies = [LockworkError(str(error))] * len(batches)
        any_answer = False
        for batch, answers in zip(batches, replies, strict=True):
            if isinstance(answers, ServerRefused):
                any_answer = self._renew_batch(batch) or any_answer
            elif isinstance(answers, LockworkError):
                self._complain("leases could not be renewed yet", answers)
                self._book.postponed(batch, now())
                self._failing.add(self._server(batch))
            else:
                self._failing.discard(self._server(batch))
                self._refused.difference_update(batch)
                self._note(batch, answers)
                any_answer = True
        self._traced = self._traced and bool(self._failing)
        return any_answer

    def _server(self, batch: list[Lease]) -> object:
        return self._driver.server(batch[0].renewal.key)

    def _batch(self, lease: Lease) -> tuple[str, bool, int]:
        """Return a key that is equal for leases in the same call: refused leases are separate."""
        return lease.renewal.scripts.renew, lease in self._refused, self._driver.slot(lease.renewal.key)

    def _renew_batch(self, batch: list[Lease]) -> bool:
        """Renew with one call, and return True if the server answered.

        Halves a refused batch until it finds the key that causes the refusal.
        """
        self.limit()
        try:
            callback = partial(self._heard, batch[0].renewal.key)
            answers = self._driver.run(grants.renew_each([lease.wish for lease in batch], _AGAIN, callback))
        except Exception as error:  # noqa: BLE001 - whatever it is, all locks of this process would end without us
            blamed = isinstance(error, ServerRefused)
            if blamed and len(batch) > 1 and batch[0] not in self._refused:
                half = len(batch) // 2
                return self._renew_batch(batch[:half]) and self._renew_batch(batch[half:])
            self._complain("leases could not be renewed yet", error)
            self._book.postponed(batch, now())
            if self._driver.clustered:
                self._failing.add(self._server(batch))
            if blamed:
                self._refused.update(batch)
            return blamed
        self._traced = False
        self._failing.discard(self._server(batch))
        self._refused.difference_update(batch)
        self._note(batch, answers)
        return True

    def _note(self, batch: list[Lease], answers: list[float | Refusal | None]) -> None:
        at = now()
        for lease, answer in zip(batch, answers, strict=True):
            if not isinstance(answer, Refusal):
                self._book.renewed([lease], [answer], at)
                continue
            self._complain("a lease is over" if answer.over else "a lease could not be renewed yet", answer.error)
            if answer.over:
                self._book.lose(lease)
            else:
                self._book.postponed([lease], at)

    def _heard(self, key: str, sent: float, received: float, server: float) -> None:
        clock = self._clocks.setdefault(self._driver.server(key), ServerClock())
        step = clock.heard(sent, received, server)
        if step:
            # after a step forward, some leases have expired, and their holders are notified now; the others are renewed
            # before other callers request the locks
            direction = "forward" if step > 0 else "back"
            jump = words.age(abs(step))
            log.warning("the server's clock was set %s by %s: all leases are renewed now", direction, jump)
            self._book.hasten()

    def limit(self) -> None:
        """Limit the next call to the time until the first lease ends, so that its holder is notified on time."""
        self._book.end(now())
        first = self._book.first_deadline()
        longest = _FAILING if self._failing else _TIMEOUT
        if first is None:
            self._driver.timeout = longest
            return
        # one shard of a Cluster may hang: leases on the others are renewed in the remaining time
        remaining = (first - now()) / 2 if self._driver.clustered else first - now()
        self._driver.timeout = min(longest, max(_LEAST, remaining))

    def give_back(self) -> None:
        """Release the grants in `back`; after one failure, defer the rest until after the next renewals."""
        while self.back:
            self.limit()
            lease, extra = self.back.popleft()
            self._book.remove(lease)
            renewal = lease.renewal
            try:
                self._driver.run(
                    grants.release(
                        renewal.key, renewal.owner, renewal.fence, *extra, scripts=renewal.scripts, patience=_AGAIN
                    )
                )
            except Exception as error:  # noqa: BLE001 - as above
                self._complain(f"the grant of {renewal.key!r} could not be released; it ends with its lease", error)
                return
            self._traced = False

    def _complain(self, what: str, error: Exception) -> None:
        traced = None if self._traced else unforeseen(error)
        self._traced = self._traced or traced is not None
        log.warning("%s: %s", what, error, exc_info=traced)
