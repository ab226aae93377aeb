"""`lockwork stocks`."""

from __future__ import annotations

import click
from rich.text import Text

from lockwork.app.lockwork import Lockwork
from lockwork.cli.completion import stock_names
from lockwork.cli.help import Command
from lockwork.cli.names import unknown
from lockwork.cli.options import connected, names_the_app
from lockwork.cli.report import Output, Report, reports
from lockwork.cli.table import Column, Listing
from lockwork.cli.text import EMPTY, count, printable
from lockwork.protocol.names import display, typed

_COLUMNS = (
    Column("stock", whole=True),
    Column("queue"),
    Column("total", right=True),
    Column("available", right=True),
    Column("reserved", right=True),
    Column("sold", right=True),
    Column("expired", right=True),
)


@click.command(
    cls=Command,
    examples={
        "lockwork stocks": "All stocks with sold, reserved and available units.",
        "lockwork stocks phones --watch 1": "One stock, every second.",
    },
)
@reports
@names_the_app
@click.argument("name", required=False, shell_complete=stock_names)
def stocks(*, output: Output, url: str | None, prefix: str, name: str | None) -> None:
    """Show stocks with their sold, reserved and available units.

    `expired` counts expired reservations. The units of a reservation that has just expired may still count as reserved.
    """
    with connected(url, prefix) as lw:
        output.show(lambda: _report(lw, name))


def _report(lw: Lockwork, name: str | None) -> Report:
    stocks = lw.stocks()
    name = None if name is None else display(typed(name))
    matching = [each for each in stocks if name in (None, each.name)]
    if name is not None and not matching:
        raise unknown("stock", name, {each.name for each in stocks})
    rows: list[list[str | Text]] = []
    for each in matching:
        units = each.status
        counts = (units.total, units.available, units.reserved, units.sold, units.expired)
        rows.append([printable(each.name or EMPTY), printable(each.queue), *map(count, counts)])
    document = [{"name": each.name, "queue": each.queue, "status": each.status} for each in matching]
    return Report({"stocks": document}, [Listing(_COLUMNS, rows, empty="no stock is on this server")])
