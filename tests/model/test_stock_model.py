"""The stock against its model, and broken stocks that the model must notice."""

from __future__ import annotations

import pytest

from model.bench import check, check_caught
from model.stock_machine import StockMachine
from simulation.server import Build, Server

_LEFT = "if counts[1] - counts[2] - counts[3] < units then"
TWINS = (
    Build("sells one too many", (("stock_reserve", _LEFT, "if counts[1] - counts[2] - counts[3] + 1 < units then"),)),
    Build("forgets the limit", (("stock_reserve", "if limit > 0 and", "if limit > 99 and"),)),
    Build("forgets keys", (("stock_reserve", "redis.call('HSET', books, 'k' .. key, id)", ""),)),
    Build("adds twice", (("stock_state", "if not string.find(added, ARGV[3], 1, true) then", "if true then"),)),
    Build(
        "sells what has expired",
        (("stock_end", "if kept[5] <= now then", "if false then"), ("stock_end", "\nexpire()", "")),
    ),
    Build("gives back twice", (("parts/stock", "redis.call('HDEL', books, 'r' .. id)", ""),)),
)


def test_a_stock_does_what_its_model_says(simulated: Server) -> None:
    check(StockMachine, simulated, Build())


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.name)
def test_a_broken_stock_is_caught(simulated: Server, twin: Build) -> None:
    check_caught(StockMachine, simulated, twin)
