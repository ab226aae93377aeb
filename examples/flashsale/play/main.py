"""What `lockwork demo` does: check what it needs, play, and say how it ended."""

from __future__ import annotations

import importlib.util
import json
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from lockwork.errors import ConfigError, LockworkError
from lockwork.version import install_command
from play.failure import DemoFailed, Interrupted
from play.live import LiveScreen
from play.report import as_json, findings, print_table
from play.sale import SaleOutcome, SalePlan, play
from play.screen import PlainScreen, Screen
from play.signals import Signals

_PROGRAMS = ("shop.py", "tasks.py", "ledger.py", "load.py")
_STORY = """\
A flash sale: {buyers} buyers want one of {stock} phones, through a real web shop. Many press twice or send again, \
and a third of them never pay. In the middle of the sale a worker is killed while it runs orders. At the end an audit \
compares the answers to buyers with the ledger: no phone sold twice, no order lost.
"""


def run(
    buyers: int, stock: int, seed: int, home: Path | None, signals: Signals, *, dashboard: bool = False, as_object: bool
) -> int:
    """Play a sale and return the exit status; raises a LockworkError when it cannot be played to its end."""
    if sys.platform == "win32":
        raise ConfigError("the demo starts its own server, which is not available on Windows: use Linux or macOS")
    needed = ["aiohttp", "starlette", "uvicorn", *(["jinja2"] if dashboard else [])]
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        extras = "demo,dashboard" if dashboard else "demo"
        raise DemoFailed(f"the demo needs {' and '.join(missing)}: {install_command(extras)}")
    plan = SalePlan(buyers, stock, seed, _home(home), dashboard)
    console = Console(stderr=as_object, highlight=False)
    try:
        if not as_object:
            console.print(_STORY.format(buyers=f"{buyers:,}", stock=f"{stock:,}"))
        with ExitStack() as showing:
            screen = showing.enter_context(_screen(console, plan, quiet=as_object))

            def audited(outcome: SaleOutcome) -> None:
                showing.close()
                _report(console, outcome, as_object=as_object)
                if dashboard:
                    console.print("\nA few buyers a second continue to arrive. Ctrl-C ends the demo.")

            outcome = play(plan, screen, signals, audited)
    except (Interrupted, LockworkError):
        # a program that was only just being started may have had the signal, too, and then that is what failed
        if not signals.number:
            raise
        name = signal.Signals(signals.number).name
        print(f"lockwork: stopped by {name}; everything that was started has ended", file=sys.stderr)
        return 128 + signals.number
    if outcome.victim is None:
        raise DemoFailed("no worker was killed, because none was running an order: try more buyers or phones")
    return 0 if outcome.good else 1


def _report(console: Console, outcome: SaleOutcome, *, as_object: bool) -> None:
    if not as_object:
        print_table(console, outcome)
        return
    print(json.dumps(as_json(outcome)))
    for line in findings(outcome):
        print(f"lockwork: {line}", file=sys.stderr)


def _home(given: Path | None) -> Path:
    shop = Path(__file__).parents[1] if given is None else given
    if not all((shop / program).is_file() for program in _PROGRAMS):
        raise ConfigError(f"a shop is a folder with {', '.join(_PROGRAMS)}, which {shop} is not")
    return shop.resolve()


def _screen(console: Console, plan: SalePlan, *, quiet: bool) -> Screen:
    if console.is_terminal:
        return LiveScreen(console, plan.buyers)
    return PlainScreen(None if quiet else sys.stdout, plan.buyers)
