"""Addresses that hang: a frozen server, a port that accepts no connection, a name that does not resolve."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Iterator

import pytest


@contextlib.contextmanager
def frozen(pid: int) -> Iterator[None]:
    """Stop a process within the block."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def black_hole() -> Iterator[int]:
    """Return a port with a full accept queue: a further SYN gets no answer."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, contextlib.ExitStack() as stack:
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(server.getsockname())
        yield server.getsockname()[1]


@contextlib.contextmanager
def hanging_resolver(monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[threading.Event]:
    """Make lookups of this name hang once the yielded event is set, until the block ends; before, it resolves to
    127.0.0.1.
    """
    over, hangs, resolve = threading.Event(), threading.Event(), socket.getaddrinfo

    def slow(host: object, *args: object, **more: object) -> object:
        if host != name:
            return resolve(host, *args, **more)  # type: ignore[arg-type]
        if hangs.is_set():
            over.wait()
        return resolve("127.0.0.1", *args, **more)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", slow)
        try:
            yield hangs
        finally:
            over.set()
