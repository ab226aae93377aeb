"""`lockwork acl`."""

from __future__ import annotations

import click

from lockwork.acl import ROLES, rules, user_name
from lockwork.cli.help import Command


@click.command(
    cls=Command,
    examples={
        "lockwork acl worker": "The rights of workers, as a command for redis-cli.",
        "lockwork acl producer locks --user shop --aclfile": "A web app that enqueues jobs and uses locks.",
    },
)
@click.argument("roles", nargs=-1, required=True, type=click.Choice(list(ROLES)), metavar="ROLE...")
@click.option("--prefix", default="lw", show_default=True, help="First part of the app's keys.")
@click.option("--user", help="The user's name. [default: the roles' names, joined by a hyphen]")
@click.option("--cluster", is_flag=True, help="For the nodes of a Cluster (Redis 7 or later, or Valkey).")
@click.option("--aclfile", is_flag=True, help="Print a line of an ACL file instead of a command for redis-cli.")
def acl(*, roles: tuple[str, ...], prefix: str, user: str | None, cluster: bool, aclfile: bool) -> None:
    """Print the rights that a user of the server needs, as one line: producer, worker, locks or operator.

    Give several roles for a user that is all of them. The line has no password: set one with ACL SETUSER, or add
    >PASSWORD to it. Setting the rules again keeps the passwords. See docs/security.md.
    """
    name = user_name(user if user is not None else "-".join(dict.fromkeys(roles)))
    click.echo(" ".join(["user" if aclfile else "ACL SETUSER", name, *rules(roles, prefix, cluster=cluster)]))
