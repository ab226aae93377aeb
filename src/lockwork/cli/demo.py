"""`lockwork demo`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from lockwork.demo.signals import Signals

_COUNT = click.IntRange(1, 1_000_000)


@click.command()
@click.option("--buyers", default=20_000, show_default=True, type=_COUNT, help="Buyers who come.")
@click.option("--stock", default=200, show_default=True, type=_COUNT, help="Phones on sale.")
@click.option("--seed", default=1, show_default=True, help="How the buyers behave.")
@click.option(
    "--shop", type=click.Path(path_type=Path), help="Folder of another shop, such as a copy of ours that you changed."
)
@click.option("--json", "as_object", is_flag=True, help="Print one JSON object, and nothing else, at the end.")
def demo(buyers: int, stock: int, seed: int, shop: Path | None, *, as_object: bool) -> None:
    """Play a flash sale with real processes, kill a worker in the middle of it, and audit the end.

    The exit status is 1 if anything was oversold, lost or duplicated.
    """
    with Signals() as signals:
        from lockwork.demo.main import run  # noqa: PLC0415 - the other commands need not wait for it

        sys.exit(run(buyers, stock, seed, shop, signals, as_object=as_object))
