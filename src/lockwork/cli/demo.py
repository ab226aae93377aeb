"""`lockwork demo`: finds the flash sale, and plays it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import click

import lockwork
from lockwork.cli.help import Command
from lockwork.errors import ConfigError

_COUNT = click.IntRange(1, 1_000_000)


@click.command(
    cls=Command,
    examples={
        "lockwork demo": "20,000 buyers, 200 phones.",
        "lockwork demo --buyers 2000 --stock 50 --json": "A small sale; the audit as JSON.",
        "lockwork demo --dashboard": "Watch the sale in a browser; buyers continue to arrive until Ctrl-C.",
    },
)
@click.option("--buyers", default=20_000, show_default=True, type=_COUNT, help="Number of buyers.")
@click.option("--stock", default=200, show_default=True, type=_COUNT, help="Number of phones on sale.")
@click.option("--seed", default=1, show_default=True, help="Seed of the buyers' behavior.")
@click.option(
    "--shop",
    type=click.Path(path_type=Path),
    help="Folder of another shop, such as a changed copy of examples/flashsale.",
)
@click.option(
    "--dashboard", is_flag=True, help="Serve the dashboard, and let buyers continue after the audit until Ctrl-C."
)
@click.option("--json", "as_object", is_flag=True, help="Print only one JSON object, at the end.")
def demo(buyers: int, stock: int, seed: int, shop: Path | None, *, dashboard: bool, as_object: bool) -> None:
    """Run a flash sale with real processes, kill a worker in the middle, and audit the result.

    The exit status is 1 if anything was oversold, lost or duplicated.
    """
    if dashboard and as_object:
        raise click.UsageError("---dashboard continues after the audit: omit --json")
    sys.path.append(str(_flash_sale()))
    with importlib.import_module("play.signals").Signals() as signals:
        # only now: the import is slow, and signals need their handlers meanwhile
        run = importlib.import_module("play.main").run
        sys.exit(run(buyers, stock, seed, shop, signals, dashboard=dashboard, as_object=as_object))


def _flash_sale() -> Path:
    package = Path(lockwork.__file__).resolve().parent
    # the wheel has the examples within the package, the repository beside src
    for examples in (package / "_examples", package.parents[1] / "examples"):
        if (examples / "flashsale" / "play").is_dir():
            return examples / "flashsale"
    raise ConfigError("examples/flashsale is not installed: install Lockwork from its wheel or its repository")
