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
        "lockwork acl viewer --eval": "A viewer on Redis 6.2, which has no functions.",
    },
)
@click.argument("roles", nargs=-1, required=True, type=click.Choice(list(ROLES)), metavar="ROLE...")
@click.option(
    "--prefix",
    envvar="LOCKWORK_PREFIX",
    default="lw",
    help="First part of the app's keys. [default: LOCKWORK_PREFIX, else lw]",
)
@click.option("--user", help="The user's name. [default: the roles' names, joined by a hyphen]")
@click.option("--cluster", is_flag=True, help="For the nodes of a Cluster (Redis 7 or later, or Valkey).")
@click.option("--eval", "by_eval", is_flag=True, help="Let a viewer run scripts: for a server without functions.")
@click.option("--aclfile", is_flag=True, help="Print a line of an ACL file instead of a command for redis-cli.")
def acl(*, roles: tuple[str, ...], prefix: str, user: str | None, cluster: bool, by_eval: bool, aclfile: bool) -> None:
    """Print the rights of a server user, as one line. Roles: producer, worker, locks, operator, viewer.

    Pass several roles for a user that needs their rights together. The line has no password: use ACL SETUSER, or add
    >PASSWORD to it. Applying the line again keeps the passwords. A viewer reads by functions of the server, which
    `lockwork functions load` loads. See docs/security.md.
    """
    name = user_name(user if user is not None else "-".join(dict.fromkeys(roles)))
    words = rules(roles, prefix, cluster=cluster, by_eval=by_eval)
    click.echo(" ".join(["user" if aclfile else "ACL SETUSER", name, *words]))
    if "+fcall_ro" in words:
        click.echo(f"{name} reads by functions: load them once with `lockwork functions load`", err=True)
