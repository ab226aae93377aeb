"""The file of users: their password hashes, read again when the file changes, and written as a whole."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from lockwork.errors import ConfigError
from lockwork.logs import Log

if sys.platform != "win32":
    import fcntl

log: Log = Log("lockwork.dashboard")

SCRYPT = {"n": 2**14, "r": 8, "p": 1, "maxmem": 64 * 1024 * 1024}
"""One hash takes 16 MiB and 50 ms."""
NOBODY = f"scrypt${'00' * 16}${'00' * 64}"
"""Hash to compare with for an unknown user, so that the time does not reveal existing names."""
_FRESH = 1.0
"""Seconds between two checks of the file."""


def hash_password(password: str) -> str:
    """Hash a password for a file of users."""
    salt = secrets.token_bytes(16)
    key = hashlib.scrypt(password.encode(), salt=salt, n=SCRYPT["n"], r=SCRYPT["r"], p=SCRYPT["p"])
    return f"scrypt${salt.hex()}${key.hex()}"


def password_matches(password: str, stored: str) -> bool:
    """Compare a password with its hash, in the same time for all."""
    _, salt, key = stored.partition(":")[0].split("$")
    digest = hashlib.scrypt(password.encode(), salt=bytes.fromhex(salt), n=SCRYPT["n"], r=SCRYPT["r"], p=SCRYPT["p"])
    return hmac.compare_digest(digest, bytes.fromhex(key))


def read_users(path: str | Path) -> dict[str, str]:
    """Read a file of users, one a line: `name:hash`, or `name:hash:view` for a read-only user.

    Raises ConfigError.
    """
    users = {}
    for number, line in enumerate(_lines(path), 1):
        if _is_comment(line):
            continue
        name, _, stored = line.strip().partition(":")
        if not name or not _is_hash(stored):
            raise ConfigError(
                f"line {number} of {str(path)!r} is not NAME:HASH or NAME:HASH:view; "
                "make one with: lockwork dashboard --add-user NAME --users FILE"
            )
        users[name] = stored
    if not users:
        raise ConfigError(f"the file of users {str(path)!r} is empty")
    return users


def add_user(path: Path, name: str, password: str, *, view: bool) -> None:
    """Write a user to a file, or replace the user of that name; other lines and comments stay.

    Replaces the file atomically; only its owner may read it. Raises ConfigError.
    """
    if not name.isprintable() or ":" in name or name.startswith("#") or name != name.strip() or not name:
        raise ConfigError(f"a user's name must be text without colons, not {name!r}")
    line = f"{name}:{hash_password(password)}{':view' if view else ''}"
    path = path.resolve()  # a symbolic link stays in place
    try:
        with _alone(path.parent):
            has_content = path.exists() and path.stat().st_size
            if has_content and not all(map(_is_comment, _lines(path))):
                read_users(path)  # raises for a file with other content
            lines = _lines(path) if has_content else []
            of_user = [at for at, each in enumerate(lines) if each.strip().partition(":")[0] == name]
            new_lines = [each for at, each in enumerate(lines) if at not in of_user[1:]]
            if of_user:
                new_lines[of_user[0]] = line
            else:
                new_lines.append(line)
            _replace(path, "".join(f"{each}\n" for each in new_lines))
    except OSError as error:
        raise ConfigError(f"the file of users {str(path)!r} cannot be written: {error}") from None


class Users:
    """The users of a dashboard: hashes by name, or a file that is read again when it changes.

    A change that makes the file unreadable is logged, and the earlier users remain. Raises ConfigError.
    """

    def __init__(self, given: Mapping[str, str] | str | Path | None) -> None:
        self._path = Path(given) if isinstance(given, str | Path) else None
        self._mark = None if self._path is None else _mark(self._path)
        self._users = dict(given) if isinstance(given, Mapping) else {}
        if self._path is not None:
            self._users = read_users(self._path)
        elif wrong := [name for name, stored in self._users.items() if not _is_hash(stored)]:
            raise ConfigError(f"the user {wrong[0]!r} has no hash as `read_users` returns it: pass the path of a file")
        self._until = time.monotonic() + _FRESH

    def __bool__(self) -> bool:
        return bool(self._users)

    def current(self) -> Mapping[str, str]:
        """Return the hashes by name, at most one second old."""
        if self._path is not None and (now := time.monotonic()) >= self._until:
            self._until = now + _FRESH
            mark = _mark(self._path)
            if mark != self._mark:
                self._mark = mark
                try:
                    self._users = read_users(self._path)
                    log.info("the file of users %s has changed: %d users", self._path, len(self._users))
                except ConfigError as error:
                    log.warning("%s; the earlier users remain", error)
        return self._users


def _is_comment(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _is_hash(stored: str) -> bool:
    hashed, _, right = stored.partition(":")
    parts = hashed.split("$")
    if len(parts) != 3 or parts[0] != "scrypt" or right not in ("", "view"):
        return False
    try:
        return all(bytes.fromhex(part) for part in parts[1:])
    except ValueError:
        return False


def _lines(path: str | Path) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"the file of users {str(path)!r} cannot be read: {error}") from None


def _mark(path: Path) -> tuple[int, ...] | None:
    """Return a value that changes with the file's content; None without a file."""
    try:
        file_stat = path.stat()
    except OSError:
        return None
    return file_stat.st_ino, file_stat.st_size, file_stat.st_mtime_ns, file_stat.st_ctime_ns


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other process adds a user in this folder."""
    if sys.platform == "win32":
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _replace(path: Path, text: str) -> None:
    """Replace the file atomically; it keeps its owner, and only the owner may read it."""
    with NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            if sys.platform != "win32":
                if path.exists():
                    before = path.stat()
                    with suppress(PermissionError):
                        os.fchown(file.fileno(), before.st_uid, before.st_gid)
                os.fchmod(file.fileno(), 0o600)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
