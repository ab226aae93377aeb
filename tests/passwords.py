"""A credential provider that fails for a while."""

from __future__ import annotations

import redis


class Passwords(redis.CredentialProvider):
    """A provider whose next `remaining` calls raise `kind`, which is neither a server error nor a network error."""

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
