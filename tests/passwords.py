"""A credential provider that fails for a while."""

from __future__ import annotations

import redis


class Passwords(redis.CredentialProvider):
    """Fails the next `left` times, with an error that is neither the server's nor the network's."""

    def __init__(self, kind: type[BaseException] = ValueError) -> None:
        self.remaining = 0
        self._kind = kind

    def get_credentials(self) -> tuple[str, str]:
        self.remaining -= 1
        if self.remaining >= 0:
            raise self._kind("no password today")
        return "default", "any"

    async def get_credentials_async(self) -> tuple[str, str]:
        return self.get_credentials()
