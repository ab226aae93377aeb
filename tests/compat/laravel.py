"""A PHP process that uses Laravel's cache lock on command."""

from __future__ import annotations

import json
from typing import Any

from processes import Started

CONNECTION = "laravel_database_"
CACHE = "laravel_cache"


class Laravel:
    """A PHP process that applies commands to its cache lock."""

    def __init__(self, process: Started) -> None:
        self._process = process

    @staticmethod
    def key(name: str) -> str:
        """The key of its cache lock with this name: both prefixes, and a colon of the cache's own."""
        return f"{CONNECTION}{CACHE}:{name}"

    def say(self, *words: object) -> None:
        """Tell it something, without waiting for the answer."""
        self._process.tell(" ".join(map(str, words)))

    def hear(self) -> Any:
        """Return its next reply."""
        return json.loads(self._process.line())

    def ask(self, *words: object) -> Any:
        """Send it a command, and return its reply."""
        self.say(*words)
        return self.hear()
