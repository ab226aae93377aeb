"""Users of the tests' servers with the rights of some roles: LOCKWORK_TEST_ROLES names them, with commas."""

from __future__ import annotations

import os

from clients import client_of
from lockwork.acl import rules

_GIVEN = os.environ.get("LOCKWORK_TEST_ROLES", "")


def as_role(url: str, roles: str = _GIVEN) -> str:
    """The URL for a user with these roles, who is made on the servers there; the same URL when there are none."""
    if not roles:
        return url
    name = roles.replace(",", "-")
    cluster = url.startswith("redis+cluster:")
    words = ("ACL", "SETUSER", name, *rules(roles.split(","), cluster=cluster), ">secret")
    with client_of(url) as client:
        client.execute_command(*words, **({"target_nodes": client.ALL_NODES} if cluster else {}))
    return url.replace("://", f"://{name}:secret@", 1)
