"""Encrypted payloads, by the library cryptography. Needs the extra `lockwork[encryption]`."""

from __future__ import annotations

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from lockwork.errors import PayloadRejected
from lockwork.payloads.key_ring import KeyedCodec, Keys

_NONCE = 12
"""Bytes of a nonce: the 96 bits that NIST SP 800-38D recommends (section 5.2.1.1), random (section 8.2.2)."""


class AesGcmCodec(KeyedCodec):
    """Encrypts payloads with AES-256-GCM: `Lockwork(codec=AesGcmCodec(keys))`.

    keys: 32 random bytes each, or their base64 text, by id; the first encrypts, and all decrypt. Raises ConfigError.

    Each payload has a random nonce of 96 bits, so one key may encrypt at most 2^32 payloads (NIST SP 800-38D, section
    8.3): replace it before that.
    """

    variable = "LOCKWORK_ENCRYPTION_KEYS"

    def __init__(self, keys: Keys) -> None:
        super().__init__(keys)
        self._ciphers = {id: AESGCM(key) for id, key in self._keys.items()}
        self._encrypt = self._ciphers[self._key_ids[0]].encrypt

    def encode(self, payload: bytes, context: bytes) -> bytes:
        """Return a nonce and the encrypted payload; the context is its associated data."""
        nonce = os.urandom(_NONCE)  # never from a state that a forked process would repeat
        return nonce + self._encrypt(nonce, payload, context)

    def decode(self, data: bytes, context: bytes, key_id: str) -> bytes:
        """Decrypt; raises PayloadRejected for data that was changed, or moved to another context."""
        try:
            return self._ciphers[key_id].decrypt(data[:_NONCE], data[_NONCE:], context)
        except (InvalidTag, ValueError):
            raise PayloadRejected(f"does not decrypt with key {key_id!r}") from None
