"""The stock against its model, and broken stocks that the model must notice."""

from __future__ import annotations

import pytest

from model.bench import check, check_caught
from model.queues.stock_waiters_machine import StockWaitersMachine
from simulation.server import Build, Server

_LINE = "parts/stock_waiters"
MUTANTS = (
    Build("forgets the limit", (("stock_reserve", "if limit > 0 and", "if limit > 99 and"),)),
    Build("forgets keys", (("parts/stock", "redis.call('HSET', stock, 'k' .. key, id)", "local _"),)),
    Build("adds twice", (("stock_state", "if not string.find(added, request, 1, true) then", "if true then"),)),
    Build(
        "sells expired units",
        (("stock_end", "kept[5] <= clock then", "false then"), ("stock_end", "\nexpire()", "")),
    ),
    Build("gives back twice", (("parts/stock", "redis.call('HDEL', stock, 'r' .. id)", ""),)),
    Build("a refund stays sold", (("parts/stock", "kept[1] == 'h' and 'held' or 'sold'", "'held'"),)),
    Build("refunds a held reservation", (("stock_end", "(verb == 'f' and kept[1] == 'h' and -2)", "nil"),)),
    Build("withdraws sold units", (("stock_state", "+ add >= 0 then", "+ add >= -99 then"),)),
    Build("returns no units, with a job", (("stock_end", "(done and 1) or 0", "1"),)),
    Build("does not know its own job", (("stock_end", "done = redis.call('HEXISTS', jobs, job)", "done = 0"),)),
    Build("extending shortens", (("stock_extend", "math.max(kept[5], clock + hold * 1000)", "clock + hold * 1000"),)),
    Build("overtakes waiters", (("stock_reserve", "  serve()\n", ""),)),
    Build("grants too many units", ((_LINE, "free, handed = free - units, handed + 1", "handed = handed + 1"),)),
    Build("grants beyond the limit", ((_LINE, "has + units <= limit", "true"),)),
    Build("grants without expiry", ((_LINE, "math.min(claim, hold)", "hold"),)),
    Build("claims twice", (("stock_wait", "and kept[7] and", "and"),)),
    Build("a leaving buyer keeps handed-over units", (("stock_leave", "kept[7] or ", ""),)),
    Build("serves the dead", ((_LINE, "if waiter and waiter[1] <= clock then", "if false then"),)),
)


def test_a_stock_matches_its_model(simulated: Server) -> None:
    check(StockWaitersMachine, simulated, Build())


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_stock_is_caught(simulated: Server, mutant: Build) -> None:
    check_caught(StockWaitersMachine, simulated, mutant)
