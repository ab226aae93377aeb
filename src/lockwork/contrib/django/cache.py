"""Django's Redis cache with locks: `cache.lock("report", timeout=60)`, as django-redis has it."""

from __future__ import annotations

from typing import Any

from django.core.cache.backends import redis

from lockwork.contrib.django.app import project_app
from lockwork.durations import Duration
from lockwork.locks import Lock


class RedisCache(redis.RedisCache):
    """The cache keeps its values at LOCATION; locks are on the server of the setting LOCKWORK."""

    def lock(
        self,
        key: str,
        version: int | None = None,
        timeout: Duration | None = None,
        sleep: float | None = None,  # noqa: ARG002 - django-redis polls; here the server notifies the waiter
        blocking_timeout: Duration | None = None,
        **options: Any,
    ) -> Lock:
        """Return a lock, for `with` and `async with`; its name is the key as the cache stores it.

        Args:
            key: names the lock.
            version: of the key; None (default): that of the cache.
            timeout: the lock ends after this time. None (default): it is renewed while this process lives.
            sleep: ignored.
            blocking_timeout: maximum time to wait before LockTimeout. None (default): no limit.
            **options: those of `Lockwork.lock`, such as `on_lost`.
        """
        name = self.make_and_validate_key(key, version=version)
        return project_app().lock(name, lease=timeout, wait=blocking_timeout, **options)
