"""A TCP proxy in front of a server that can lose requests and replies, or be a slow link."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Iterator
from typing import Literal

Phase = Literal["request", "reply", "late"]


class Proxy:
    """A proxy that forwards bytes, and loses a call on request: see `lose`.

    `lose` breaks the connection of the next call with a text, before or after the call takes effect. In the phase
    `late`, the request is delivered when the test calls `deliver_late`.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._listener = socket.create_server(("127.0.0.1", 0))
        # keep the bytes of a slow link in the client's buffers instead of the proxy's
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        self._rate: int | None = None
        self._free_at = 0.0
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._peers: dict[socket.socket, socket.socket] = {}
        self._clients: set[socket.socket] = set()
        self._doomed: set[socket.socket] = set()
        self._text: bytes | None = None
        self._phase: Phase = "reply"
        self._late: tuple[socket.socket, bytes] | None = None
        self._closed = False
        self._deaf = False
        self._fillers: list[socket.socket] = []
        self._stop = False
        self.lost = 0
        """Number of lost calls."""
        self._woken, self._waker = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._main, name="proxy")
        self._thread.start()

    def lose(self, text: str, phase: Phase) -> None:
        """Lose the next call that contains `text`."""
        self._phase, self._text = phase, text.encode()

    def deliver_late(self) -> None:
        """Deliver the late request, and wait until the server has replied or closed its connection."""
        assert self._late is not None
        (server, data), self._late = self._late, None
        with server, contextlib.suppress(OSError):
            server.sendall(data)
            server.recv(1 << 16)

    def slow_down(self, rate: int | None) -> None:
        """Forward at most `rate` bytes per second over all connections; None removes the limit."""
        self._rate = rate

    def refuse(self, on: bool) -> None:
        """Refuse new connections, or accept them again."""
        self._closed = on

    def lead_to(self, url: str) -> None:
        """Connect new clients to another server; existing connections stay."""
        self._path = url.removeprefix("unix://")

    def vanish(self) -> None:
        """Break all connections, and answer no further SYN."""
        self._listener.listen(0)
        self._deaf = True
        self._waker.send(b"!")
        for _ in range(4):  # fill the listener's accept queue
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(self._listener.getsockname())
            self._fillers.append(filler)

    def close(self) -> None:
        self._stop = True
        self._waker.send(b"!")
        self._thread.join()
        for end in (self._woken, self._waker, *self._fillers):
            end.close()
        for end in list(self._peers):
            end.close()
        if self._late is not None:
            self._late[0].close()
        self._selector.close()
        self._listener.close()

    def _main(self) -> None:
        while not self._stop:
            for key, _ in self._selector.select():
                end = key.fileobj
                assert isinstance(end, socket.socket)
                if end is self._woken:
                    end.recv(1)
                    if self._deaf and not self._stop:
                        self._selector.unregister(self._listener)
                        for one in list(self._clients):
                            self._break(one)
                elif end is self._listener:
                    self._accept()
                elif end in self._peers:
                    self._forward(end)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        if self._closed or self._stop:
            client.close()
            return
        host, _, port = self._path.partition(":")
        if port:
            server = socket.create_connection((host, int(port)))
        else:
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._path)
        self._clients.add(client)
        for one, other in ((client, server), (server, client)):
            self._peers[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _forward(self, end: socket.socket) -> None:
        rate = self._rate
        try:
            data = end.recv(1 << 16 if rate is None else 1 << 14)
        except OSError:
            data = b""
        if data and end in self._clients and self._text is not None and self._text in data:
            self._text = None
            if self._phase in ("request", "late"):
                self.lost += 1
                if self._phase == "late":
                    # the client's connection is closed below; the server has not received the request
                    self._late = self._peers[end].dup(), data
                data = b""
            else:
                self._doomed.add(self._peers[end])
        elif data and end in self._doomed:
            self.lost += 1
            data = b""
        try:
            if data:
                if rate is not None:
                    self._free_at = max(self._free_at, time.monotonic()) + len(data) / rate
                    time.sleep(max(0.0, self._free_at - time.monotonic()))
                self._peers[end].sendall(data)
                return
        except OSError:
            pass
        self._break(end)

    def _break(self, end: socket.socket) -> None:
        for one in (end, self._peers[end]):
            self._selector.unregister(one)
            del self._peers[one]
            self._clients.discard(one)
            self._doomed.discard(one)
            one.close()


@contextlib.contextmanager
def proxied(url: str) -> Iterator[Proxy]:
    """Start a proxy in front of the server at a unix:// URL, or at a host:port."""
    proxy = Proxy(url.removeprefix("unix://"))
    try:
        yield proxy
    finally:
        proxy.close()
