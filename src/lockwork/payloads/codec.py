"""The hook around payloads that an app provides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class PayloadCodec(Protocol):
    """Encrypts what an app stores: arguments, results, progress, checkpoints and errors.

    `lockwork.contrib.cryptography.AesGcmCodec` is one; another class with these members works, too. Its methods run on
    event loops and in threads at the same time, so they must not wait for another server.
    """

    @property
    def key_ids(self) -> Sequence[str]:
        """The ids of the known keys, 1 to 40 letters, digits, `_` and `-`. The first key encrypts."""
        ...

    def encode(self, payload: bytes, context: bytes) -> bytes:
        """Encrypt with the first key. `decode` must fail for any other context. An error is raised to the caller."""
        ...

    def decode(self, data: bytes, context: bytes, key_id: str) -> bytes:
        """Decrypt with one of the keys; raise PayloadRejected if the data or the context is not that of `encode`.

        After any other error, the job waits and is tried again.
        """
        ...
