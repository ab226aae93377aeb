"""TLS servers and their certificates, created by each run with its own authority."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from urllib.parse import urlencode

import trustme

from ports import free_port

HOST = "localhost"


@cache
def program() -> str | None:
    """A server program that is built with TLS, as Debian's is: LOCKWORK_TLS_SERVER, else redis-server of the PATH."""
    given = os.environ.get("LOCKWORK_TLS_SERVER") or shutil.which("redis-server") or shutil.which("valkey-server")
    if given is None:
        return None
    # without TLS it does not know the option, and ends at once; with it, it misses its certificate
    asked = subprocess.run([given, "--port", "0", "--tls-port", "1"], capture_output=True, timeout=30, check=False)
    return given if b"tls" in asked.stdout.lower() and b"Bad directive" not in asked.stderr else None


@dataclass(frozen=True)
class Certificates:
    """Files of one authority: its own certificate, one of the server and one of a client, each with its key."""

    authority: Path
    server: Path
    client: Path

    @classmethod
    def made(cls, folder: Path, host: str = HOST, *, expired: bool = False) -> Certificates:
        """Make them; the server's is for `host`."""
        folder.mkdir()
        found = cls(folder / "ca.pem", folder / "server.pem", folder / "client.pem")
        authority = trustme.CA()
        now = datetime.now(UTC)
        ends = now - timedelta(days=1) if expired else now + timedelta(days=1)
        authority.cert_pem.write_to_path(found.authority)
        server = authority.issue_cert(host, not_before=now - timedelta(days=2), not_after=ends)
        server.private_key_and_cert_chain_pem.write_to_path(found.server)
        authority.issue_cert("worker@example.org").private_key_and_cert_chain_pem.write_to_path(found.client)
        return found


@dataclass(frozen=True)
class TLSServer:
    """A running server: its ports with and without TLS, and its first certificates."""

    port: int
    plain: int
    certificates: Certificates

    def url(self, *, scheme: str = "rediss", host: str = HOST, port: int | None = None, **options: object) -> str:
        """A URL that trusts its authority and shows the client's certificate, unless `options` say otherwise."""
        own = self.certificates
        usual = {"ssl_ca_certs": own.authority, "ssl_certfile": own.client, "ssl_keyfile": own.client}
        query = {name: value for name, value in {**usual, **options}.items() if value is not None}
        return f"{scheme}://{host}:{port or self.port}/0?{urlencode(query)}"

    @property
    def plain_url(self) -> str:
        """A URL of the same server without TLS."""
        return f"redis://127.0.0.1:{self.plain}/0"


@contextlib.contextmanager
def tls_server(folder: Path, certificates: Certificates, *, client: bool = True) -> Iterator[TLSServer]:
    """A server of the test's own; `client`: it wants a certificate of its clients."""
    plain = free_port()
    options = {"port": str(plain), "tls-auth-clients": "yes" if client else "no"}
    with tls_process(folder, "server", certificates, options) as port:
        yield TLSServer(port, plain, certificates)


@contextlib.contextmanager
def tls_process(
    folder: Path,
    name: str,
    certificates: Certificates,
    options: Mapping[str, str] | None = None,
    sentinel: str | None = None,
) -> Iterator[int]:
    """A server process that speaks TLS at a port, and nothing else; with the lines of a configuration, a Sentinel."""
    found = program()
    assert found is not None
    home, port = folder / name, free_port()
    home.mkdir()
    all_options = {
        "port": "0", "tls-port": str(port), "bind": "127.0.0.1", "dir": str(home), "tls-replication": "yes",
        "tls-cluster": "yes", "tls-cert-file": str(certificates.server), "tls-key-file": str(certificates.server),
        "tls-ca-cert-file": str(certificates.authority), "tls-auth-clients": "yes",
        **({} if sentinel else {"save": "", "appendonly": "no"}), **(options or {}),
    }  # fmt: skip
    if sentinel is None:
        command = [found, *(word for name, value in all_options.items() for word in (f"--{name}", value))]
    else:
        config = home / "sentinel.conf"
        config.write_text("".join(f"{name} {value}\n" for name, value in all_options.items()) + sentinel)
        command = [found, str(config), "--sentinel"]
    log = home / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=home)
    try:
        began = time.monotonic()
        while True:
            with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
                break
            assert process.poll() is None, log.read_text(errors="replace")
            assert time.monotonic() - began < 30, "the server does not start"
            time.sleep(0.02)
        yield port
    finally:
        process.terminate()
        process.wait(30)
