"""Fake servers: the first is outdated, the second replies with nonsense after the handshake."""

from __future__ import annotations

import contextlib
import socketserver
import threading
from collections.abc import Iterator

VERSION = "6.0.16"


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        while header := self.rfile.readline():
            words = []
            for _ in range(int(header[1:])):
                length = int(self.rfile.readline()[1:])
                words.append(self.rfile.read(length + 2)[:-2])
            self.server.asked.append(words[0].upper())  # type: ignore[attr-defined]
            if words[0].upper() == b"INFO":
                self.wfile.write(self.server.info)  # type: ignore[attr-defined]
            else:
                self.wfile.write(b"+OK\r\n")


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = False
    allow_reuse_address = True
    asked: list[bytes]
    info: bytes


def old_server() -> contextlib.AbstractContextManager[tuple[str, list[bytes]]]:
    """Yield the URL of an outdated server, and the names of its received commands."""
    facts = f"# Server\r\nredis_version:{VERSION}\r\nrole:master\r\nmaxmemory_policy:noeviction\r\n".encode()
    return _served(b"$%d\r\n%b\r\n" % (len(facts), facts))


def confused_server() -> contextlib.AbstractContextManager[tuple[str, list[bytes]]]:
    """Yield the URL of a server that replies with nonsense after the handshake, and its received commands."""
    return _served(b"<!DOCTYPE html>\r\n")


@contextlib.contextmanager
def _served(info: bytes) -> Iterator[tuple[str, list[bytes]]]:
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.asked, server.info = [], info
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"redis://127.0.0.1:{server.server_address[1]}/0", server.asked
        finally:
            server.shutdown()
            thread.join()
