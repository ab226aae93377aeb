"""The end of a timestamp lock whose value has fewer than nine decimals."""

from __future__ import annotations

import pytest

from locks.model.shared_machine import KEY
from lockwork.protocol.effects import script_call
from lockwork.protocol.formats import timestamp
from models.bench import Bench
from simulator.server import Build, Server


@pytest.mark.parametrize(
    ("unit", "value", "ends"),
    [
        ("s", "1800000001", 1_800_000_002_000_000),
        ("s", "1800000001.", 1_800_000_002_000_000),
        ("s", "1800000001.5", 1_800_000_001_600_000),
        ("s", "1800000001.50", 1_800_000_001_510_000),
        ("s", "1800000001.500000000", 1_800_000_001_500_000),
        ("ms", "1800000001500", 1_800_000_001_501_000),
        ("ms", "1800000001500.5", 1_800_000_001_500_600),
        ("ms", "1800000001500.500000000", 1_800_000_001_500_500),
    ],
)
def test_value_with_fewer_than_nine_decimals_ends_with_its_last_digit(
    simulated: Server, unit: timestamp.Unit, value: str, ends: int
) -> None:
    bench = Bench(simulated, Build())
    acquire = script_call("formats/timestamp_acquire", KEY, ["000000001", 1000, timestamp.MICROSECONDS[unit]])
    for early, taken in ((2, True), (-2, False)):  # the float of a fraction may be a microsecond off
        simulated.command("SET", KEY, value)
        bench.now = ends - early
        assert bench.run(timestamp.state(KEY)).expires_in == (0.001 if taken else 0)
        bench.now = ends - early
        assert bench.call(acquire, later=0)[0] == (0 if taken else 1)
