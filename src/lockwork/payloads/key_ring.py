"""Keys of a codec, by their ids: given as a dict, in an environment variable, or in a file."""

from __future__ import annotations

import os
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Self

from lockwork.errors import ConfigError
from lockwork.protocol.queue.envelope import KEY_ID

KEY_BYTES = 32
Keys = Mapping[str, bytes | str]
"""Keys by id: bytes, or their base64 text. The first key encrypts or signs; all keys read."""


def read_keys(keys: object) -> dict[str, bytes]:
    """Check keys; raises ConfigError, which never contains a key."""
    if not isinstance(keys, Mapping) or not keys:
        raise ConfigError(
            'a codec needs its keys by id, such as {"2026-11": key}; the first key encrypts or signs, and all read'
        )
    return {_id(id): _key(id, key) for id, key in keys.items()}


def keys_in_environment(variable: str) -> dict[str, str]:
    """Read `ID:KEY` entries, separated by spaces, commas or lines; raises ConfigError."""
    text = os.environ.get(variable)
    if not text or not text.strip():
        raise ConfigError(f"the environment variable {variable} with the keys of the codec is not set")
    return dict(_entries(text.replace(",", " ").split(), f"the environment variable {variable}"))


def keys_in_file(path: str | os.PathLike[str]) -> dict[str, str]:
    """Read a file with one `ID:KEY` in each line; lines that begin with # are comments. Raises ConfigError."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the file {str(path)!r} with the keys of the codec cannot be read: {error}") from None
    entries = [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]
    if not entries:
        raise ConfigError(f"the file {str(path)!r} has no keys: write one ID:KEY in each line")
    return dict(_entries(entries, f"the file {str(path)!r}"))


def _entries(entries: list[str], where: str) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for number, entry in enumerate(entries, 1):
        id, colon, key = entry.partition(":")
        if not colon:  # it may be a key, so it is not shown
            raise ConfigError(f"{where}: entry {number} has no id: write ID:KEY, such as 2026-11:KEY")
        if id.strip() in seen:
            raise ConfigError(f"{where}: two keys have the id {id.strip()!r}")
        seen.add(id.strip())
        yield id.strip(), key.strip()


def _id(id: object) -> str:
    if not isinstance(id, str) or not KEY_ID.fullmatch(id):
        raise ConfigError(f"a key's id is 1 to 40 letters, digits, '_' and '-', such as '2026-11', not {id!r:.60}")
    return id


def _key(id: str, key: object) -> bytes:
    if isinstance(key, str):
        try:
            key = b64decode(key.strip().translate(_STANDARD) + "=" * (-len(key.strip()) % 4), validate=True)
        except ValueError:
            raise ConfigError(f"key {id!r} is not base64: make one with generate_key()") from None
    if not isinstance(key, bytes):
        raise ConfigError(f"key {id!r} must be bytes or base64 text, not {type(key).__name__}")
    if len(key) != KEY_BYTES:
        raise ConfigError(f"key {id!r} has {len(key)} bytes, and must have {KEY_BYTES}: make one with generate_key()")
    return key


_STANDARD = str.maketrans("-_", "+/")


class KeyedCodec:
    """What the codecs have in common: keys by id, from code, the environment or a file."""

    variable: ClassVar[str]
    """The environment variable that has the keys, unless the caller names another."""

    def __init__(self, keys: Keys) -> None:
        self._keys = read_keys(keys)
        self._key_ids = tuple(self._keys)

    @classmethod
    def from_env(cls, variable: str | None = None) -> Self:
        """Read the keys from an environment variable, `ID:KEY` each, separated by commas or spaces."""
        return cls(keys_in_environment(variable or cls.variable))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """Read the keys from a file, one `ID:KEY` in each line."""
        return cls(keys_in_file(path))

    @staticmethod
    def generate_key() -> str:
        """Return a new random key of 256 bits, as base64 text."""
        return urlsafe_b64encode(os.urandom(KEY_BYTES)).decode()

    @property
    def key_ids(self) -> Sequence[str]:
        """The ids of the keys."""
        return self._key_ids

    def __repr__(self) -> str:
        return f"<{type(self).__name__} keys={', '.join(self._key_ids)}>"
