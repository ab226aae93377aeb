"""Users of the tests' servers with the rights of some roles: LOCKWORK_TEST_ROLES names them, with commas."""

from __future__ import annotations

import os

import redis

from lockwork.acl import rules

_GIVEN = os.environ.get("LOCKWORK_TEST_ROLES", "")


def as_role(url: str, roles: str = _GIVEN) -> str:
    """The URL for a user with these roles, who is made on the server there; the same URL when there are none."""
    if not roles:
        return url
    name = roles.replace(",", "-")
    with redis.Redis.from_url(url) as client:
        words = ("ACL", "SETUSER", name, *rules(roles.split(",")), ">secret")
        client.execute_command(*words)
    return url.replace("://", f"://{name}:secret@", 1)
