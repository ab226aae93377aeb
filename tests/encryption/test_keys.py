"""Keys of codecs: from a dict, the environment or a file, and errors that never show a key."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from lockwork import ConfigError, Lockwork
from lockwork.contrib.cryptography import AesGcmCodec
from lockwork.types import HmacCodec

KEY = "S" * 43
"""The base64 text of 32 bytes."""
CODECS = [AesGcmCodec, HmacCodec]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "needs its keys by id"),
        ([b"x" * 32], "needs its keys by id"),
        ({"a": b"x" * 31}, "key 'a' has 31 bytes, and must have 32"),
        ({"a": b"x" * 16}, "key 'a' has 16 bytes"),
        ({"a": "not base64 !"}, "key 'a' is not base64"),
        ({"a": "SSSS"}, "key 'a' has 3 bytes"),
        ({"a": 5}, "key 'a' must be bytes or base64 text, not int"),
        ({"a b": b"x" * 32}, "a key's id is 1 to 40 letters"),
        ({"": b"x" * 32}, "a key's id is 1 to 40 letters"),
        ({1: b"x" * 32}, "a key's id is 1 to 40 letters"),
    ],
)
def test_unusable_keys_are_refused(codec: Any, keys: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        codec(keys)


@pytest.mark.parametrize("codec", CODECS)
def test_keys_are_bytes_or_base64_text_of_either_alphabet(codec: Any) -> None:
    key = bytes(range(223, 255))
    urlsafe = b64encode(key, b"-_").decode()
    keys = {"a": key, "b": b64encode(key).decode(), "c": urlsafe, "d": urlsafe.rstrip("=")}
    made = codec(keys)
    assert made.key_ids == ("a", "b", "c", "d")
    for id in keys:
        if codec is HmacCodec:
            assert made.verify(made.sign(b"x", b""), b"x", b"", id)
        else:
            assert made.decode(made.encode(b"x", b""), b"", id) == b"x"


@pytest.mark.parametrize("codec", CODECS)
def test_generated_key_is_used_as_it_is(codec: Any) -> None:
    assert codec({"a": codec.generate_key()}).key_ids == ("a",)
    assert codec.generate_key() != codec.generate_key()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("text", [f"a:{KEY},b:{KEY}", f"a:{KEY} b:{KEY}", f" a:{KEY}\nb:{KEY}\n"])
def test_keys_in_environment(codec: Any, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEYS", text)
    assert codec.from_env("SHOP_KEYS").key_ids == ("a", "b")


@pytest.mark.parametrize("text", [None, "", "  "])
def test_missing_variable_is_an_error_and_encrypts_nothing(text: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if text is None:
        monkeypatch.delenv("LOCKWORK_ENCRYPTION_KEYS", raising=False)
    else:
        monkeypatch.setenv("LOCKWORK_ENCRYPTION_KEYS", text)
    with pytest.raises(ConfigError, match="LOCKWORK_ENCRYPTION_KEYS with the keys of the codec is not set"):
        AesGcmCodec.from_env()


def test_error_about_entry_does_not_show_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEYS", KEY)
    with pytest.raises(ConfigError, match="entry 1 has no id") as caught:
        AesGcmCodec.from_env("SHOP_KEYS")
    assert KEY not in str(caught.value)
    monkeypatch.setenv("SHOP_KEYS", f"a:{KEY}x a:{KEY}")
    with pytest.raises(ConfigError, match="two keys have the id 'a'") as caught:
        AesGcmCodec.from_env("SHOP_KEYS")
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("codec", CODECS)
def test_keys_in_file(codec: Any, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# the newest first\nb:{KEY}\n\n  a:{KEY}  \n")
    assert codec.from_file(file).key_ids == ("b", "a")
    file.write_text("# nothing\n")
    with pytest.raises(ConfigError, match="has no keys"):
        codec.from_file(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        codec.from_file(tmp_path / "missing")


@pytest.mark.parametrize("codec", CODECS)
def test_representation_has_no_key(codec: Any) -> None:
    text = repr(codec({"a": KEY, "b": b"x" * 32}))
    assert text == f"<{codec.__name__} keys=a, b>"


class Nameless:
    key_ids = ("",)

    def encode(self, payload: bytes, context: bytes) -> bytes:
        return payload

    def decode(self, data: bytes, context: bytes, key_id: str) -> bytes:
        return data


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"codec": AesGcmCodec}, "codec is an object such as"),
        ({"codec": "aes"}, "codec is an object such as"),
        ({"codec": {"mail": None}}, "codec is an object such as"),
        ({"codec": {"mail/0": HmacCodec({"a": KEY})}}, "a queue's name in codec"),
        ({"codec": Nameless()}, "key_ids are ids"),
        ({"codec_rollout": "write"}, "codec_rollout is for an app with a codec"),
        ({"codec": HmacCodec({"a": KEY}), "codec_rollout": "both"}, "codec_rollout"),
    ],
)
def test_unusable_settings_are_refused(settings: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Lockwork("redis://localhost", **settings)
