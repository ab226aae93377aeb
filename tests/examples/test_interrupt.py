"""After any end of the demo, at any time, no process and no temporary folder remains."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from processes import until

if TYPE_CHECKING:
    from examples.conftest import Place


def starts(place: Place) -> bool:
    """Return True once a temporary file exists."""
    return any(place.temporary.iterdir())


def sells(place: Place) -> bool:
    """Return True while buyers get replies and all processes run:

    demo, sweeper, guardian, server, 3 workers, shop, load.
    """
    told = any(path.stat().st_size for path in place.temporary.glob("*/told.jsonl"))
    return told and len(place.processes()) >= 9


MOMENTS = {"as it starts": starts, "in the middle of the sale": sells}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_everything(place: Place, number: signal.Signals, moment: str) -> None:
    with place.start("--buyers", "2000") as process:
        until(lambda: MOMENTS[moment](place), moment)
        # as a terminal does it: the whole process group gets it
        os.killpg(process.pid, number)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert errors == f"lockwork: stopped by {number.name}; everything that was started has ended\n"
    place.check_empty()


def test_kill_9_ends_everything(place: Place) -> None:
    with place.start("--buyers", "2000") as process:
        until(lambda: sells(place), "the sale begins")
        process.kill()
        process.communicate(timeout=30)
    until(lambda: not place.processes(), "all processes end by themselves")
    place.check_empty()
