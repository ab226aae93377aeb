"""Many buyers in asyncio tasks, threads and processes: a stock is never oversold, and no unit is lost."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from lockwork import LimitReached, Lockwork, ReservationEnded, SoldOut
from processes import script

BUY = """
import random, sys
from lockwork import LimitReached, Lockwork, SoldOut
draw = random.Random(int(sys.argv[1]))
bought = 0
with Lockwork() as lw:
    phones = lw.stock("phone", 100, limit=3)
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(300):
        try:
            held = phones.reserve(f"b{draw.randrange(60)}")
        except (SoldOut, LimitReached):
            continue
        if draw.random() < 0.5:
            phones.release(held)
        else:
            phones.confirm(held)
            bought += 1
print(bought, flush=True)
"""


async def test_asyncio_tasks_never_oversell(alw: Lockwork) -> None:
    phones = alw.stock("phone", 50, limit=2)
    sold: Counter[str] = Counter()

    async def buyer(number: int) -> None:
        draw = random.Random(number)
        for _ in range(10):
            name = f"b{draw.randrange(100)}"
            try:
                held = await phones.areserve(name, draw.choice((1, 2)))
            except (SoldOut, LimitReached):
                continue
            if draw.random() < 0.4:
                await phones.arelease(held)
            else:
                await phones.aconfirm(held)
                sold[name] += held.n
            status = await phones.ainspect()
            assert status.total == 50 == status.available + status.reserved + status.sold
            assert status.available >= 0

    await asyncio.gather(*(buyer(number) for number in range(200)))
    status = await phones.ainspect()
    assert status.sold == sold.total() <= 50
    assert (status.reserved, status.available) == (0, 50 - status.sold)
    assert max(sold.values()) <= 2


def test_threads_while_reservations_run_out(lw: Lockwork) -> None:
    phones = lw.stock("phone", 20)

    def buyer(number: int) -> int:
        draw, bought = random.Random(number), 0
        for turn in range(60):
            try:
                held = phones.reserve(f"b{number}-{turn}", hold=draw.choice(("1ms", "2ms", "1m")))
                if draw.random() < 0.1:
                    phones.confirm(held)
                    bought += 1
                elif held.expires_in > 1:
                    phones.release(held)
            except (SoldOut, ReservationEnded):
                continue
        return bought

    with ThreadPoolExecutor(8) as pool:
        bought = sum(pool.map(buyer, range(8)))
    while phones.inspect().reserved:
        pass
    status = phones.inspect()
    assert status.sold == bought <= 20
    assert status.available == 20 - bought


def test_concurrent_calls_with_one_key_make_one_reservation(lw: Lockwork) -> None:
    phones = lw.stock("phone", 50)

    async def main() -> list[tuple[str, bool]]:
        made = await asyncio.gather(*(phones.areserve("bob", key="bob") for _ in range(100)))
        await lw.aclose()
        return [(reservation.id, reservation.created) for reservation in made]

    made = asyncio.run(main())
    assert len({id for id, _ in made}) == 1
    assert sum(created for _, created in made) == 1
    assert phones.inspect().reserved == 1


def test_processes_never_oversell(lw: Lockwork, url: str) -> None:
    with ExitStack() as stack:
        buyers = [stack.enter_context(script(BUY, number, url=url)) for number in range(3)]
        for process in buyers:
            assert process.line() == "ready"
        for process in buyers:
            process.tell("go")
        bought = sum(int(process.line()) for process in buyers)
        assert [process.wait() for process in buyers] == [0, 0, 0]
    status = lw.stock("phone", 100).inspect()
    assert status.sold == bought <= 100
    assert (status.reserved, status.available) == (0, 100 - bought)
