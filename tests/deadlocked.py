"""A deadlock of two threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from lockwork import LockLost, Lockwork
from processes import until


@contextmanager
def deadlock(
    lw: Lockwork, before: Callable[[str], object] = lambda _name: None, make: Callable[[str], Any] | None = None
) -> Iterator[None]:
    """Deadlock two threads, A and B, that acquire the locks a and b in opposite order, until the end of the block.

    `before` is called in each thread with its name; `make` makes other locks than `lw.lock`.
    """
    taken = threading.Barrier(2)
    make = make or (lambda name: lw.lock(name, tags=["night"]))

    def work(first: str, second: str) -> None:
        before(threading.current_thread().name)
        # the holder of the force-released lock ends with LockLost
        with suppress(LockLost), make(first):
            taken.wait()
            with make(second):
                pass

    threads = [
        threading.Thread(target=work, args=names, name=name) for name, names in (("A", ("a", "b")), ("B", ("b", "a")))
    ]
    for thread in threads:
        thread.start()
    try:
        until(lambda: len(lw.locks().waits) == 2, "both wait")
        yield
    finally:
        for lock in (make("a"), lw.rwlock("a")):  # only the read-write lock can release its write side
            getattr(lock, "force_release", int)()
        for thread in threads:
            thread.join(20)
