"""`lockwork functions`."""

from __future__ import annotations

import click

from lockwork.app.lockwork import Lockwork
from lockwork.cli.action_group import ActionGroup
from lockwork.cli.options import connected, names_the_server, yes_option
from lockwork.cli.report import Output, Report, reports
from lockwork.cli.table import Column, Listing
from lockwork.protocol.functions import library
from lockwork.runtime import function_libraries
from lockwork.words import several

_COLUMNS = (
    Column("library", whole=True),
    Column("version"),
    Column("functions", right=True),
    Column("servers", right=True),
)


functions: ActionGroup = ActionGroup(
    "functions",
    default="list",
    help="""Show, load or delete the read-only functions that server users with the role `viewer` call.

    An administrator of the server loads them once, and again before Lockwork is upgraded: each version calls its own
    library, and several can be loaded. See docs/security.md.
    """,
)


@functions.command(
    "list",
    examples={
        "lockwork functions": "The loaded libraries; those of other versions can be deleted after an upgrade.",
    },
)
@reports
@names_the_server
def _list(*, output: Output, url: str | None) -> None:
    """List the loaded libraries."""
    with connected(url, "lw") as lw:
        output.show(lambda: _report(lw))


@functions.command(
    "load",
    examples={"lockwork functions load": "Load the functions of this version, on each primary of a Cluster."},
)
@names_the_server
def _load(*, url: str | None) -> None:
    """Load the library of this version."""
    with connected(url, "lw") as lw:
        for server in function_libraries.load(lw.runtime.endpoint):
            click.echo(f"{library().name} is loaded at {server}")


@functions.command(
    "delete", examples={"lockwork functions delete": "Delete the libraries of other versions, after a question."}
)
@click.option("--all", "everything", is_flag=True, help="Delete the library of this version, too.")
@yes_option
@names_the_server
def _delete(*, everything: bool, yes: bool, url: str | None) -> None:
    """Delete the libraries of other versions."""
    with connected(url, "lw") as lw:
        _delete_libraries(lw, everything=everything, yes=yes)


@functions.command(
    "show", examples={"lockwork functions show | redis-cli -x FUNCTION LOAD REPLACE": "Load them with redis-cli."}
)
def _show() -> None:
    """Print the code of the library of this version."""
    click.echo(library().code, nl=False)


def _report(lw: Lockwork) -> Report:
    servers = function_libraries.loaded(lw.runtime.endpoint)
    current = library().name
    rows = [
        (
            name,
            "this" if name == current else "other",
            str(max(versions.get(name, 0) for versions in servers.values())),
            f"{sum(name in versions for versions in servers.values())} of {len(servers)}",
        )
        for name in sorted({current}.union(*servers.values()))
    ]
    document = {"library": current, "servers": servers}
    lacking = [server for server, versions in servers.items() if current not in versions]
    hint = [f"missing at {', '.join(lacking)}: lockwork functions load"] if lacking else []
    return Report(document, [Listing(_COLUMNS, rows), *hint])


def _delete_libraries(lw: Lockwork, *, everything: bool, yes: bool) -> None:
    servers = function_libraries.loaded(lw.runtime.endpoint)
    names = {name for versions in servers.values() for name in versions if everything or name != library().name}
    if not names:
        click.echo("no library to delete")
        return
    if not yes:
        some = several(len(names), "library", "libraries")
        click.confirm(f"delete {some} ({', '.join(sorted(names))})?", err=True, abort=True)
    function_libraries.delete(lw.runtime.endpoint, names)
    click.echo(f"deleted {', '.join(sorted(names))}")
