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
    """Return a server program with TLS, like Debian's: LOCKWORK_TLS_SERVER, or else the one in the PATH."""
    given = os.environ.get("LOCKWORK_TLS_SERVER") or shutil.which("redis-server") or shutil.which("valkey-server")
    if given is None:
        return None
    # without TLS the program rejects the option; with TLS it reports a missing certificate
    asked = subprocess.run([given, "--port", "0", "--tls-port", "1"], capture_output=True, timeout=30, check=False)
    return given if b"tls" in asked.stdout.lower() and b"Bad directive" not in asked.stderr else None


@dataclass(frozen=True)
class Certificates:
    """Files of one authority: its certificate, a server's and a client's, each with its key."""

    authority: Path
    server: Path
    client: Path

    @classmethod
    def made(cls, folder: Path, host: str = HOST, *, expired: bool = False) -> Certificates:
        """Create the files; the server's certificate is for `host`."""
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
        """Return a URL that trusts the authority and uses the client's certificate; `options` may override both."""
        own = self.certificates
        usual = {"ssl_ca_certs": own.authority, "ssl_certfile": own.client, "ssl_keyfile": own.client}
        query = {name: value for name, value in {**usual, **options}.items() if value is not None}
        return f"{scheme}://{host}:{port or self.port}/0?{urlencode(query)}"

    @property
    def plain_url(self) -> str:
        """Return a URL of the same server without TLS."""
        return f"redis://127.0.0.1:{self.plain}/0"


@contextlib.contextmanager
def tls_server(folder: Path, certificates: Certificates, *, client: bool = True) -> Iterator[TLSServer]:
    """Start a private server until the end of the block; `client`: it requires client certificates."""
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
    """Start a server process with only a TLS port. With lines of a configuration it is a Sentinel."""
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
