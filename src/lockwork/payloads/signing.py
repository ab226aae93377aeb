"""Signatures of payloads, for queues that other programs can write to."""

from __future__ import annotations

from lockwork.payloads.key_ring import KeyedCodec, Keys


class HmacCodec(KeyedCodec):
    """Signs payloads with HMAC-SHA256 (RFC 2104); they stay readable. `Lockwork(codec=HmacCodec(keys))`.

    keys: 32 random bytes each, or their base64 text, by id; the first signs, and all verify. Raises ConfigError.
    """

    variable = "LOCKWORK_SIGNING_KEYS"

    def __init__(self, keys: Keys) -> None:
        import hmac  # noqa: PLC0415 - it loads OpenSSL, which an app without this codec does not need

        self._digest, self._equal = hmac.digest, hmac.compare_digest
        super().__init__(keys)

    def sign(self, payload: bytes, context: bytes) -> bytes:
        """Return the signature by the first key."""
        return self._signature(self._key_ids[0], payload, context)

    def verify(self, signature: bytes, payload: bytes, context: bytes, key_id: str) -> bool:
        """Return True if this key has signed the payload in this context."""
        return self._equal(signature, self._signature(key_id, payload, context))

    def _signature(self, key_id: str, payload: bytes, context: bytes) -> bytes:
        # the length separates the two: no other context and payload have the same text
        return self._digest(self._keys[key_id], b"%d:%b%b" % (len(context), context, payload), "sha256")
