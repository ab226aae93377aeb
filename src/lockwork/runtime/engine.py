"""The engine: one daemon thread with its own connections, for what must not depend on the user's thread or loop.

It renews all leases of the process in batches, receives the wake-ups for all its waiters over one subscription, and
notifies holders of lost leases. It starts when first needed, and survives a server that goes away.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence

from lockwork.logs import Log
from lockwork.protocol.keys import sharded
from lockwork.protocol.locks.leases import Lease, LeaseBook
from lockwork.protocol.messages import Hints
from lockwork.runtime.async_pubsub import Hearing
from lockwork.runtime.clock import now
from lockwork.runtime.cluster import ClusterEndpoint
from lockwork.runtime.cluster_pubsub import ClusterSubscription, ShardHearing
from lockwork.runtime.endpoint import Endpoint
from lockwork.runtime.lock_counts import LockCounts
from lockwork.runtime.pubsub import Subscription
from lockwork.runtime.renewal import Renewing
from lockwork.runtime.shard_channels import LINGER, ShardChannels
from lockwork.runtime.sticky_cache import StickyCache
from lockwork.runtime.sync_driver import SyncDriver
from lockwork.runtime.wakeups import Mailboxes

log: Log = Log("lockwork")

_SHORT = 0.9
"""Seconds; a lease of the usual length is not due before that."""
_MOST = 1000
"""Keys of which it is remembered that a message named them."""


class Engine:
    """See the module; `channel` is where this process is woken."""

    def __init__(
        self,
        endpoint: Endpoint,
        channel: str,
        sticky_cache: StickyCache,
        lock_counts: LockCounts,
        *,
        allow_eviction: bool,
    ) -> None:
        self._endpoint = endpoint
        self._channel = channel
        self._cluster = endpoint if isinstance(endpoint, ClusterEndpoint) else None
        self._mail = Mailboxes()
        self._channels = ShardChannels(self._mail)
        """Those of a Cluster, for waiters of this process."""
        self._own: dict[str, None] = {channel: None}
        """The channels of a process itself, on a Cluster."""
        self._book = LeaseBook()
        self._hints = Hints()
        self._suspects: set[str] = set()
        """Keys of locks that were taken away, as messages say."""
        self._turn = 0.0
        """When the server may be asked about them."""
        self._sticky_cache = sticky_cache
        self._lock_counts = lock_counts
        self._allow_eviction = allow_eviction
        self._driver = SyncDriver(endpoint, self, patience=1.0, allow_eviction=allow_eviction)
        self._renewing = Renewing(self._book, self._driver)
        self._start = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stop = False
        self._listen = False
        self._era = endpoint.era
        """When it changes, the subscription must be looked after."""
        self._planned = 0.0
        self._busy = False
        """Whether leases were added since the engine planned last."""
        self._sender: socket.socket | None = None
        self._receiver: socket.socket | None = None
        self._odd: list[socket.socket] = []
        """Ends of pairs whose thread may never have begun."""
        endpoint.observers.add(self._wake_up)  # may be called from now on, so all else is there

    # -- for any thread -------------------------------------------------------------------------------------------

    def keep(self, lease: Lease) -> None:
        """Watch over a lease: renew it if it wants that, and notify its holder when it is lost."""
        self._book.add(lease)
        self._busy = True
        if not lease.renewed:
            self._listen = True  # it is never renewed, so only a message from the server shows that it was taken away
        if lease.next < self._planned:
            self._wake_up()
        elif self._thread is None:
            self._ensure()

    def drop(self, lease: Lease) -> None:
        """Stop watching over a lease."""
        self._book.remove(lease)

    def prolong(self, lease: Lease, deadline: float) -> bool:
        """The holder itself has extended a lease; False when it was lost meanwhile."""
        lease.deadline = max(lease.deadline, deadline)
        if not lease.renewed:
            lease.next = lease.deadline
        self._book.moved(lease)
        return not lease.lost

    def lost(self, lease: Lease) -> None:
        """The holder itself has learned from the server that its lease is over."""
        self._book.lose(lease)

    def give_back(self, lease: Lease) -> None:
        """Release a grant from the engine's thread: the caller need not wait for it."""
        self._renewing.back.append(lease)
        self._wake_up()

    def wake(self, ticket: str) -> None:
        """Wake the waiter for `ticket` in this process."""
        self._mail.deliver(ticket, "look")

    def wait(self, ticket: str, until: float, key: str | None = None) -> str | None:
        """Block until a message for `ticket`, from the scripts of `key`, has come, or the clock shows `until`."""
        self.listen()
        if self._cluster is None or key is None:
            return self._mail.wait(ticket, until)
        with self._listening(key, ticket) as missed:
            return self._mail.wait(ticket, until, missed=missed)

    async def async_wait(self, ticket: str, until: float, key: str | None = None) -> str | None:
        """Async version of `wait`."""
        self.listen()
        if self._cluster is None or key is None:
            return await self._mail.async_wait(ticket, until)
        with self._listening(key, ticket) as missed:
            return await self._mail.async_wait(ticket, until, missed=missed)

    @contextlib.contextmanager
    def _listening(self, key: str, ticket: str) -> Iterator[bool]:
        """Listen to the slot of `key` within the block; see ShardChannels.waiting."""
        with self._channels.waiting(sharded(self._channel, key), ticket) as missed:
            if self._channels.fresh:
                self._wake_up()
            yield missed
        if self._planned > now() + LINGER:
            self._wake_up()

    def close(self) -> None:
        """End the thread and its connections."""
        self._endpoint.observers.discard(self._wake_up)
        with self._start:
            self._stop = True
            thread, self._thread = self._thread, None
        self._wake_up()
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        self._renewing.give_back()  # what was noted too late for the thread
        if self._lock_counts.due is not None:
            self._lock_counts.tell(self._driver)
        self._driver.close()
        for end in (self._sender, self._receiver, *self._odd):
            if end is not None:
                end.close()
        self._sender = self._receiver = None
        self._mail.wake_all()

    # -- starting and waking ----------------------------------------------------------------------------------------

    def listen(self) -> None:
        """Subscribe to this process's channel from now on."""
        if not self._listen or self._era != self._endpoint.era:
            self._listen = True
            self._wake_up()
        if self._thread is None:
            self._ensure()

    def _listen_now(self) -> None:
        self.listen()
        self._wake_up()

    def hearing(self, channel: str, tickets: Mapping[str, Sequence[str]]) -> Hearing | ShardHearing:
        """A subscription to another channel for the same waiters, on the running loop.

        `tickets`: by a key of each queue, what is waited for there. On a Cluster the engine's own connections hear it.
        """
        if self._cluster is None:
            return Hearing(self._endpoint, channel, self._mail, allow_eviction=self._allow_eviction)
        places = [(sharded(channel, key), ticket) for key, some in tickets.items() for ticket in some]
        return ShardHearing(channel, places, self._own, self._channels, self._listen_now)

    def _ensure(self) -> None:
        with self._start:
            if self._thread is not None or self._stop:
                return
            try:
                self._receiver, self._sender = receiver, sender = socket.socketpair()
                receiver.setblocking(False)
                sender.setblocking(False)
                thread = threading.Thread(target=self._main, args=(receiver,), name="lockwork-engine", daemon=True)
                thread.start()
                self._thread = thread
            except BaseException:
                # Interrupted: the next call starts another; this one, if it runs already, ends with its socket. Whether
                # it runs is not known, so its own end of the pair stays open until the engine is closed.
                pair, self._receiver, self._sender, self._thread = (self._receiver, self._sender), None, None, None
                self._odd += [end for end in pair if end is not None]
                if pair[1] is not None:
                    pair[1].close()
                raise

    def _wake_up(self) -> None:
        sender = self._sender
        if sender is not None:
            with contextlib.suppress(OSError):  # full: the engine wakes anyway; closed: it has ended
                sender.send(b"!")

    # -- the engine's own thread ------------------------------------------------------------------------------------

    def _main(self, receiver: socket.socket) -> None:
        selector = selectors.DefaultSelector()
        try:
            selector.register(receiver, selectors.EVENT_READ)
        except ValueError:  # closed before this thread came to its first step
            selector.close()
            return
        subscription = self._subscription(selector)
        try:
            while not self._stop:
                if self._listen:
                    self._era = self._endpoint.era
                    subscription.tend()
                for key, _ in selector.select(self._pause(subscription.next_event)):
                    if key.fileobj is receiver:
                        if not _drained(receiver):
                            return
                    else:
                        key.data()
                self._planned = 0.0
                self._hasten()
                if self._renewing.renew():
                    self._listen = True  # a holder of that long is notified at once when its lock is taken away
                self._renewing.give_back()
                if (due := self._lock_counts.due) is not None and due <= now():
                    self._lock_counts.tell(self._driver)
        except Exception:
            log.exception(
                "the engine stopped because of an internal error; locks of this process are no longer renewed"
            )
            raise
        finally:
            subscription.close()
            selector.close()
            receiver.close()

    def _subscription(self, selector: selectors.BaseSelector) -> Subscription | ClusterSubscription:
        if self._cluster is None:
            return Subscription(
                self._endpoint,
                self._channel,
                self._deliver,
                self._mail.wake_all,
                selector,
                self._wake_up,
                allow_eviction=self._allow_eviction,
            )
        return ClusterSubscription(
            self._cluster,
            self._channels,
            self._own,
            self._deliver,
            self._mail.wake_all,
            selector,
            self._wake_up,
            allow_eviction=self._allow_eviction,
        )

    def _pause(self, at: float | None) -> float | None:
        """Plan when to check again: `at`, or when a lease is due; returns the seconds until then, None for ever."""
        suspected = self._turn if self._suspects else None
        upcoming = [at for at in (self._book.next_event(), at, suspected, self._lock_counts.due) if at is not None]
        if self._busy:
            # where many short locks come and go, it checks again before any is due, and is not woken for each
            self._busy = False
            upcoming.append(now() + _SHORT)
        if self._renewing.back:
            upcoming.append(0.0)
        # `_planned` is set before the book is read again, so that a lease added meanwhile wakes the engine
        self._planned = min(upcoming, default=float("inf"))
        newest = self._book.next_event()
        until = min(self._planned, newest if newest is not None else self._planned)
        return None if until == float("inf") else max(0.0, until - now())

    def _deliver(self, ticket: str, text: str) -> None:
        if ticket != "!":
            self._mail.deliver(ticket, text)
            return
        what, _, key = text.partition(" ")
        if what == "asked":
            lease = self._sticky_cache.asked(key)
            if lease is not None:
                self._renewing.back.append(lease)
        elif what == "look" and len(self._suspects) < _MOST:
            self._suspects.add(key)
            self._turn = 0.0

    def _hasten(self) -> None:
        """Ask the server about the locks that were taken away, as messages say, within the limit for such hints."""
        at = now()
        if self._suspects and self._turn <= at:
            self._turn = self._hints.take(at)
            if self._turn <= at:
                self._book.hasten(self._suspects)
                self._suspects.clear()


def _drained(receiver: socket.socket) -> bool:
    """Read what woke the engine; False when the socket is closed."""
    try:
        return bool(receiver.recv(4096))
    except OSError:
        return True
