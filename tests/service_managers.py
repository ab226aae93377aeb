"""A service manager such as systemd, with the parts that a worker uses."""

from __future__ import annotations

import contextlib
import socket


class Manager:
    """A notification socket, and its received messages."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address)
        self._socket.setblocking(False)
        self._heard: list[str] = []

    def heard(self) -> list[str]:
        while True:
            try:
                self._heard += self._socket.recv(4096).decode().split("\n")
            except BlockingIOError:
                return self._heard

    def fill(self, address: str) -> None:
        """Fill the receive buffer of the socket."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other, contextlib.suppress(BlockingIOError):
            other.setblocking(False)
            while True:
                other.sendto(b"OTHER=1", address)

    def close(self) -> None:
        self._socket.close()
