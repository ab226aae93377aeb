"""Users of the tests' servers with the rights of some roles: LOCKWORK_TEST_ROLES names them, with commas."""

from __future__ import annotations

import os

import redis

from clients import client_of, servers_of
from lockwork.acl import rules
from lockwork.protocol.functions import library

_GIVEN = os.environ.get("LOCKWORK_TEST_ROLES", "")


def as_role(url: str, roles: str = _GIVEN, *, loads: bool = True, by_eval: bool = False) -> str:
    """Return the URL for a user with these roles, and create the user; without roles, return the same URL.

    `loads`: load a viewer's functions, where the server has functions.
    """
    if not roles:
        return url
    name = roles.replace(",", "-")
    cluster = url.startswith("redis+cluster:")
    with client_of(url) as client:
        if "viewer" in roles and loads and not by_eval:
            by_eval = not load_functions(client)
        words = ("ACL", "SETUSER", name, *rules(roles.split(","), cluster=cluster, by_eval=by_eval), ">secret")
        client.execute_command(*words, **({"target_nodes": client.ALL_NODES} if cluster else {}))
    return url.replace("://", f"://{name}:secret@", 1)


def load_functions(client: redis.Redis) -> bool:
    """Load this version's functions on each primary; False if the server has no functions."""
    for server in servers_of(client):
        try:
            server.execute_command("FUNCTION", "LOAD", "REPLACE", library().code)
        except redis.ResponseError as error:
            if "unknown command" not in str(error):
                raise
            return False
    return True
