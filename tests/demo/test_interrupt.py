"""However the demo is ended, at whatever time: no process and no temporary folder stays."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from demo.conftest import Place

    Until = Callable[[Callable[[], object], str], None]

MOMENTS = {
    "as it starts": "*",
    "in the middle of the sale": "*/told.jsonl",
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_everything(place: Place, until: Until, number: signal.Signals, moment: str) -> None:
    with place.start("--buyers", "2000") as process:
        until(lambda: list(place.temporary.glob(MOMENTS[moment])), "the demo starts")
        # as a terminal does it: the whole process group gets it
        os.killpg(process.pid, number)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert errors == f"lockwork: stopped by {number.name}; everything that was started has ended\n"
    place.check_empty()


def test_kill_9_ends_everything(place: Place, until: Until) -> None:
    with place.start("--buyers", "2000") as process:
        until(lambda: list(place.temporary.glob("*/told.jsonl")), "the sale begins")
        assert len(place.processes()) >= 8
        process.kill()
        process.communicate(timeout=30)
    until(lambda: not place.processes(), "all processes end by themselves")
    place.check_empty()
