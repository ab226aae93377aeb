"""The engine: one daemon thread with separate connections, independent of the user's threads and loops.

The engine renews all leases of the process in batches, receives the wake-ups for all its waiters over one subscription,
and notifies holders of lost leases. It adds the names that the process uses to their index. It starts at first use, and
survives server outages.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from lockwork.logs import Log
from lockwork.protocol.keys import sharded
from lockwork.protocol.locks.leases import Lease, LeaseBook
from lockwork.protocol.messages import Hints
from lockwork.runtime.clock import now
from lockwork.runtime.endpoint import Endpoint
from lockwork.runtime.leader import Leadership
from lockwork.runtime.lock_counts import LockCounts
from lockwork.runtime.name_index import NameIndex
from lockwork.runtime.pubsub import Subscription
from lockwork.runtime.reentry import entered_once, held_here, new_lock
from lockwork.runtime.renewal import Renewing
from lockwork.runtime.replies import ignoring
from lockwork.runtime.shard_channels import LINGER, ShardChannels
from lockwork.runtime.sticky_cache import StickyCache
from lockwork.runtime.sync_driver import SyncDriver
from lockwork.runtime.wakeups import Follower, Mailboxes

if TYPE_CHECKING:
    from lockwork.runtime.async_pubsub import Hearing
    from lockwork.runtime.cluster_pubsub import ClusterSubscription, ShardHearing

log: Log = Log("lockwork")

_SHORT = 0.9
"""Seconds; a lease of the default length is not due earlier."""
_MOST = 1000
"""Maximum number of remembered keys from messages."""


class Engine:
    """The engine (see the module docstring); `channel` receives the wake-ups of this process."""

    def __init__(
        self,
        endpoint: Endpoint,
        channel: str,
        sticky_cache: StickyCache,
        lock_counts: LockCounts,
        names: NameIndex,
        *,
        allow_eviction: bool,
    ) -> None:
        self._endpoint = endpoint
        self._channel = channel
        self._cluster = endpoint.as_cluster
        self._leadership = Leadership(self._wake_up)
        self._mail = Mailboxes(self._leadership)
        self._channels = ShardChannels(self._mail)
        """Channels of a Cluster, for waiters of this process."""
        self._own: dict[str, None] = {channel: None}
        """Channels of the process, on a Cluster."""
        self._book = LeaseBook()
        self._hints = Hints()
        self._notices: deque[str] = deque()
        """Messages to holders that a leader received."""
        self._suspects: set[str] = set()
        """Keys of locks that were reported as taken away."""
        self._turn = 0.0
        """Earliest time of the next check of these keys."""
        self._sticky_cache = sticky_cache
        self._lock_counts = lock_counts
        self.names = names
        self._heard_on_loop: set[str] = set()
        """Tickets whose messages a `Hearing` receives, so that their waiters need no other subscription."""
        self._waiting: dict[str, tuple[str, ...]] = {}
        """Keys that this process waits for, or holds meanwhile, by ticket."""
        self._allow_eviction = allow_eviction
        self._driver = SyncDriver(endpoint, self, patience=1.0, allow_eviction=allow_eviction)
        self._renewing = Renewing(self._book, self._driver)
        self._start = new_lock()
        self._thread: threading.Thread | None = None
        self._stop = False
        self._listen = False
        self._era = endpoint.era
        """Era of the endpoint; when it changes, the subscription must be checked."""
        self._planned = 0.0
        self._busy = False
        """True if leases were added since the engine's last plan."""
        self._sender: socket.socket | None = None
        self._receiver: socket.socket | None = None
        self._odd: list[socket.socket] = []
        """Socket pair ends whose thread may never have begun."""
        names.wake, names.locks = self._names_noted, self._lock_keys
        endpoint.observers.add(self._wake_up)  # may be called from now on, so all attributes must exist

    # -- for any thread -------------------------------------------------------------------------------------------

    def keep(self, lease: Lease) -> None:
        """Watch a lease: renew it if it requests that, and notify its holder when it is lost."""
        self._book.add(lease)
        self._busy = True
        if not lease.renewed:
            self._listen = True  # it is never renewed, so only a message from the server reports its loss
        if lease.next < self._planned:
            self._wake_up()
        elif self._thread is None:
            self._ensure()

    def drop(self, lease: Lease) -> None:
        """Stop watching a lease."""
        self._book.remove(lease)

    def prolong(self, lease: Lease, deadline: float) -> bool:
        """Record that the holder extended a lease; return False if it was lost meanwhile."""
        lease.deadline = max(lease.deadline, deadline)
        if not lease.renewed:
            lease.next = lease.deadline
        self._book.moved(lease)
        return not lease.lost

    def lost(self, lease: Lease) -> None:
        """Record that a lease is over, as the server reported to its holder."""
        self._book.lose(lease)

    def give_back(self, lease: Lease, extra: tuple[int, ...] = ()) -> None:
        """Release a grant on the engine's thread, so that the caller need not wait.

        extra: additional arguments of the release script.
        """
        self._renewing.back.append((lease, extra))
        self._wake_up()

    def wake(self, ticket: str) -> None:
        """Wake the waiter for `ticket` in this process."""
        self._mail.deliver(ticket, "look")

    def wake_all(self) -> None:
        """Make all waiters of this process check again, and check all leases."""
        self._mail.wake_all()
        self._wake_up()

    def wait(
        self,
        ticket: str,
        until: float,
        key: str | None = None,
        sent: float | None = None,
        held: tuple[str, ...] = (),
    ) -> str | None:
        """Block until a message for `ticket` from the scripts of `key` arrives, or until the clock reaches `until`.

        sent, held: see `effects.Park`.
        """
        self.listen()
        if key is None:
            return self._mail.wait(ticket, until)
        keys = (key, *held)
        long = partial(self.names.note, *keys)
        if self._cluster is not None:
            with self._listening_to_slot(keys, ticket) as missed:
                return self._mail.wait(ticket, until, missed=missed, sent=sent, long=long)
        self._waiting[ticket] = keys
        try:
            return self._mail.wait(ticket, until, sent=sent, long=long)
        finally:
            self._waiting.pop(ticket, None)

    async def async_wait(
        self,
        ticket: str,
        until: float,
        key: str | None = None,
        sent: float | None = None,
        held: tuple[str, ...] = (),
    ) -> str | None:
        """Async version of `wait`."""
        if ticket not in self._heard_on_loop:
            self.listen()
        if key is None:
            return await self._mail.async_wait(ticket, until)
        keys = (key, *held)
        long = partial(self.names.note, *keys)
        if self._cluster is not None:
            with self._listening_to_slot(keys, ticket) as missed:
                return await self._mail.async_wait(ticket, until, missed=missed, sent=sent, long=long)
        self._waiting[ticket] = keys
        try:
            return await self._mail.async_wait(ticket, until, sent=sent, long=long)
        finally:
            self._waiting.pop(ticket, None)

    @contextlib.contextmanager
    def _listening_to_slot(self, keys: tuple[str, ...], ticket: str) -> Iterator[bool]:
        """On a Cluster, wait within the block, subscribed to the slot of the first key: see ShardChannels.waiting."""
        self._waiting[ticket] = keys
        try:
            with self._channels.waiting(sharded(self._channel, keys[0]), ticket) as missed:
                if self._channels.fresh:
                    self._wake_up()
                yield missed
        finally:
            self._waiting.pop(ticket, None)
        if self._planned > now() + LINGER:
            self._wake_up()

    @contextlib.contextmanager
    def following(self, follower: Follower, keys: Iterable[str]) -> Iterator[None]:
        """Within the block, collect the messages to the tickets of a follower, from the scripts of `keys`.

        On a Cluster, `keys` name the slots to subscribe. Enter the block before the calls that request the messages.
        """
        self.listen()
        entered: list[str] = []
        self._mail.follow(follower)
        try:
            if self._cluster is not None:
                for name in {sharded(self._channel, key) for key in keys}:
                    self._channels.enter(name, follower.ticket)
                    entered.append(name)
                self._wake_up()
            yield
        finally:
            for name in entered:
                self._channels.leave(name, follower.ticket)
            self._mail.unfollow(follower)

    def close(self) -> None:
        """End the thread and its connections."""
        self._endpoint.observers.discard(self._wake_up)
        with entered_once(self._start):
            self._stop = True
            thread, self._thread = self._thread, None
        self._wake_up()
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        self._renewing.give_back()  # leases that were added too late for the thread
        if self._lock_counts.due is not None:
            self._lock_counts.tell(self._driver)
        self.names.close(self._driver)
        self._driver.close()
        for end in (self._sender, self._receiver, *self._odd):
            if end is not None:
                end.close()
        self._sender = self._receiver = None
        self._mail.wake_all()
        self._leadership.close()

    @property
    def subscribed(self) -> bool:
        """True while the server has confirmed the subscription of this process; always False on a Cluster."""
        return self._leadership.subscribed

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
        """Return a subscription to another channel for the same waiters, on the running loop.

        tickets: by a key of each queue, the tickets of its waiters. On a Cluster, the engine's own connections receive
        the messages.
        """
        if self._cluster is None:
            from lockwork.runtime.async_pubsub import Hearing  # noqa: PLC0415 - only workers need it

            self._heard_on_loop.update(ticket for some in tickets.values() for ticket in some)
            return Hearing(
                self._endpoint,
                channel,
                self._mail,
                allow_eviction=self._allow_eviction,
                alone=lambda: self._thread is None or not self._listen,
            )
        from lockwork.runtime.cluster_pubsub import ShardHearing  # noqa: PLC0415 - loaded already

        places = [(sharded(channel, key), ticket) for key, some in tickets.items() for ticket in some]
        return ShardHearing(channel, places, self._own, self._channels, self._listen_now)

    def _ensure(self) -> None:
        if held_here(self._start):
            return  # a signal handler interrupted this start: until it returns, its waiters poll
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
                # Interrupted: the next call starts another thread. If this one runs already, it ends with its socket.
                # Its state is unknown, so its end of the pair stays open until the engine is closed.
                pair, self._receiver, self._sender, self._thread = (self._receiver, self._sender), None, None, None
                self._odd += [end for end in pair if end is not None]
                if pair[1] is not None:
                    pair[1].close()
                raise

    def _names_noted(self) -> None:
        """Request that the engine adds names soon; never fails, because the caller's call has already succeeded."""
        if self._thread is None:
            with contextlib.suppress(RuntimeError):  # no thread can start any more: `close` adds them
                self._ensure()
        elif (due := self.names.due) is not None and due < self._planned:
            self._wake_up()

    def _lock_keys(self) -> list[str]:
        """Return the keys that this process holds or waits for."""
        return [*self._book.keys(), *chain(*list(self._waiting.values()))]

    def _wake_up(self) -> None:
        sender = self._sender
        if sender is not None:
            with ignoring(OSError):  # full: the engine wakes anyway; closed: the engine has ended
                sender.send(b"!")

    # -- the engine's own thread ------------------------------------------------------------------------------------

    def _main(self, receiver: socket.socket) -> None:
        selector = selectors.DefaultSelector()
        try:
            selector.register(receiver, selectors.EVENT_READ)
        except ValueError:  # closed before the first step of this thread
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
                self._leadership.tend()
                self._hasten()
                self._work()
            self.names.close(self._driver)
        except Exception:
            log.exception(
                "the engine stopped because of an internal error; locks of this process are no longer renewed"
            )
            raise
        finally:
            subscription.close()
            selector.close()
            receiver.close()

    def _work(self) -> None:
        """Do all due work, renewals first."""
        if self._renewing.renew():
            self._listen = True  # notify the holder of a long lease at once if it loses its lock
        self._renewing.give_back()
        if (due := self._lock_counts.due) is not None and due <= now():
            self._lock_counts.tell(self._driver)
        for key in self._book.long_held(now()):
            self.names.note(key)
        if (due := self.names.due) is not None and due <= now():
            self._renewing.limit()
            self.names.add(self._driver, busy=self._book.next_event() is not None)

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
                leadership=self._leadership,
            )
        from lockwork.runtime.cluster_pubsub import ClusterSubscription  # noqa: PLC0415 - only a Cluster needs it

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
        """Plan the next check, at `at` or when a lease is due; return the seconds until then, None for no limit."""
        suspected = self._turn if self._suspects else None
        events = (
            self._book.next_event(),
            self._book.next_long_held,
            at,
            suspected,
            self._lock_counts.due,
            self.names.due,
        )
        upcoming = [at for at in events if at is not None]
        if self._busy:
            # with many short-lived locks, one early check replaces a wake-up for each lock
            self._busy = False
            upcoming.append(now() + _SHORT)
        if self._renewing.back:
            upcoming.append(0.0)
        # `_planned` must be set before these reads, so that a lease or name added meanwhile wakes the engine
        self._planned = min(upcoming, default=float("inf"))
        newest = [at for at in (self._book.next_event(), self.names.due) if at is not None]
        until = min((self._planned, *newest))
        return None if until == float("inf") else max(0.0, until - now())

    def _deliver(self, ticket: str, text: str) -> None:
        if ticket != "!":
            self._mail.deliver(ticket, text)
        elif threading.current_thread() is self._thread:
            self._notice(text)
        else:
            self._notices.append(text)
            self._wake_up()

    def _notice(self, text: str) -> None:
        """Handle a message to a holder."""
        what, _, key = text.partition(" ")
        if what == "asked":
            lease = self._sticky_cache.asked(key)
            if lease is not None:
                self._renewing.back.append((lease, ()))
        elif what == "look" and len(self._suspects) < _MOST:
            self._suspects.add(key)
            self._turn = 0.0

    def _hasten(self) -> None:
        """Ask the server about the locks that were reported as taken away, within the rate limit."""
        while self._notices:
            self._notice(self._notices.popleft())
        at = now()
        if self._suspects and self._turn <= at:
            self._turn = self._hints.take(at)
            if self._turn <= at:
                self._book.hasten(self._suspects)
                self._suspects.clear()


def _drained(receiver: socket.socket) -> bool:
    """Read the wake-up bytes; return False if the socket is closed."""
    try:
        return bool(receiver.recv(4096))
    except OSError:
        return True
