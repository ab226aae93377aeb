"""The folder and socket of an embedded server, and their permissions."""

from __future__ import annotations

import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import pytest

from lockwork.errors import ConfigError
from lockwork.runtime.embedded import Embedded, open_shared, start_private
from lockwork.runtime.embedded import folder as embedded_folder
from runtime.embedded.users import MARKS, Watched, client

pytestmark = MARKS


@pytest.mark.parametrize("how", [open_shared, start_private])
def test_long_path_uses_a_short_socket_folder(
    home: Path, watch: type[Watched], how: Callable[[Path], Embedded]
) -> None:
    folder = home / ("long" * 30)
    with how(folder) as opened, client(opened.url) as redis_client:
        assert redis_client.ping()
        server = watch(opened.pid)
        guardian = watch(server.parent())
        short = Path(unquote(opened.url.removeprefix("unix://"))).parent
        assert short.parent == Path(tempfile.gettempdir())
        assert stat.S_IMODE(short.stat().st_mode) == 0o700
    server.wait()
    guardian.wait()
    assert not short.exists()


def test_socket_folder_of_another_user_is_refused(home: Path) -> None:
    folder = embedded_folder.made(home / ("long" * 30))
    short = embedded_folder.socket_path(folder).parent
    try:
        short.chmod(0o755)
        with pytest.raises(ConfigError, match="LOCKWORK_HOME"):
            open_shared(folder)
    finally:
        short.rmdir()


def test_path_with_url_characters_is_supported(home: Path) -> None:
    with open_shared(home / "a b%41?c#d") as opened, client(opened.url) as redis_client:
        assert redis_client.ping()


def test_folder_and_socket_are_private(home: Path) -> None:
    with open_shared(home) as opened, client(opened.url) as redis_client:
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        assert stat.S_IMODE((home / "server.sock").stat().st_mode) == 0o700
        assert redis_client.config_get("appendonly", "port", "maxmemory-policy", "appendfsync") == {
            "appendonly": "yes",
            "port": "0",
            "maxmemory-policy": "noeviction",
            "appendfsync": "everysec",
        }


def test_folder_that_others_can_write_is_refused(home: Path) -> None:
    home.mkdir()
    home.chmod(0o777)
    with pytest.raises(ConfigError, match="LOCKWORK_HOME"):
        open_shared(home)


def test_default_folder_depends_on_platform_and_environment(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", "/h")
    monkeypatch.delenv("LOCKWORK_HOME", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert embedded_folder.user_home() == Path("/h/.local/share/lockwork")
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert embedded_folder.user_home() == Path("/h/.local/share/lockwork")
    monkeypatch.setenv("XDG_DATA_HOME", "/x")
    assert embedded_folder.user_home() == Path("/x/lockwork")
    monkeypatch.setenv("LOCKWORK_HOME", str(home))
    with open_shared() as opened:
        assert opened.url == f"unix://{home}/server.sock"
    monkeypatch.delenv("LOCKWORK_HOME")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert embedded_folder.user_home() == Path("/h/Library/Application Support/lockwork")
