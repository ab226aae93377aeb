"""The crowd: plays the buyers of a flash sale over HTTP, and writes down what each of them was told."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
from contextlib import suppress
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any, TextIO

import aiohttp

ARRIVALS = 1000
"""Buyers who come in a second; the first of them take the whole stock."""
CONNECTIONS = 100
CROWDED = 100
"""Buyers without a first answer at which nobody else comes: a slow machine makes the sale longer, not the waiting."""
TRICKLE = 5
"""Buyers who come in a second with --trickle."""
PATIENCE = 30.0
"""Seconds that even a patient buyer waits for an answer, and all of them together for a phone to come back."""


class Crowd:
    """All buyers; every one of them is played by one task, and behaves as the seed says."""

    def __init__(self, shop: aiohttp.ClientSession, told: TextIO, seed: int) -> None:
        self.shop = shop
        self.told = told
        self.seed = seed
        self.door = asyncio.Semaphore(CROWDED)
        self.empty_handed: list[str] = []
        self.milliseconds: list[float] = []
        self.seen = {"buyers": 0, "requests": 0, "retries": 0}

    async def come(self, buyers: int) -> None:
        """Let all buyers in, one after the other, and stay until the last phone is sold."""
        began = perf_counter()
        async with asyncio.TaskGroup() as visits:
            for number in range(buyers):
                await asyncio.sleep(began + number / ARRIVALS - perf_counter())
                await self.door.acquire()
                visits.create_task(self.visit(f"buyer-{number}"))
        await self.sell_the_rest()

    async def trickle(self) -> None:
        """Let a few buyers in every second, without end."""
        async with asyncio.TaskGroup() as visits:
            for number in itertools.count():
                await self.door.acquire()
                visits.create_task(self.visit(f"late-buyer-{number}"))
                await asyncio.sleep(1 / TRICKLE)

    async def visit(self, buyer: str) -> None:
        """One buyer: may press twice, may give up waiting and press again, may never pay, may come back later."""
        mood = Random(f"{self.seed}/{buyer}")  # noqa: S311 - play, not secrets
        presses = 2 if mood.random() < 0.3 else 1
        pays = mood.random() < 2 / 3
        returns = mood.choice((0, 0, 0, 0, 0, 0, 1, 2))
        answers = await asyncio.gather(*(self.buy(buyer, mood) for _ in range(presses)))
        self.door.release()
        while not any(answers) and returns:
            returns -= 1
            await asyncio.sleep(mood.uniform(0.5, 2.5))
            answers = [await self.buy(buyer, mood)]
        self.seen["buyers"] += 1
        bought = next(filter(None, answers), None)
        if bought is None:
            self.empty_handed.append(buyer)
        elif pays:
            await asyncio.sleep(mood.uniform(0.1, 1.02) * bought["seconds_to_pay"])  # some are too late
            await self.pay(buyer, bought["reservation"], mood)

    async def buy(self, buyer: str, mood: Random) -> dict[str, Any] | None:
        """Press "buy"; returns the answer, None when sold out."""
        status, answer = await self.ask("POST", "/buy", {"buyer": buyer}, mood)
        if status == 409:
            return None
        self.note("reserved", buyer, answer["reservation"])
        return answer

    async def pay(self, buyer: str, reservation: str, mood: Random) -> None:
        """Pay, then look at the order once."""
        status, _ = await self.ask("POST", "/pay", {"reservation": reservation}, mood)
        self.note("expired" if status == 410 else "paid", buyer, reservation)
        await self.ask("GET", f"/order/{reservation}", None, mood)

    async def sell_the_rest(self) -> None:
        """Unpaid phones come back on sale until the end: buyers who got none and will pay come back for them."""
        mood = Random(self.seed)  # noqa: S311 - play, not secrets
        mood.shuffle(self.empty_handed)
        last = perf_counter()
        while self.empty_handed and perf_counter() - last < PATIENCE:
            _, stock = await self.ask("GET", "/stock", None, mood)
            if stock["sold"] >= stock["total"]:
                return
            if stock["available"] > 0:
                buyer = self.empty_handed.pop()
                bought = await self.buy(buyer, mood)
                if bought:
                    await self.pay(buyer, bought["reservation"], mood)
                last = perf_counter()
            else:
                await asyncio.sleep(0.1)

    async def ask(self, method: str, path: str, body: object, mood: Random) -> tuple[int, dict[str, Any]]:
        """Send a request until it is answered; one buyer in ten gives up the first one and sends it again."""
        patience = mood.uniform(0, 0.004) if mood.random() < 0.1 else PATIENCE
        problem = ""
        for attempt in range(10):
            self.seen["requests"] += 1
            self.seen["retries"] += attempt > 0
            # from the press of the button: waiting for a free connection counts
            began = perf_counter()
            try:
                async with asyncio.timeout(patience), self.shop.request(method, path, json=body) as response:
                    answer = await response.json() if response.status < 500 else None
            except (TimeoutError, aiohttp.ClientError) as error:
                problem = f"{type(error).__name__}: {error}"
                if patience == PATIENCE:  # a wait that nobody wanted to give up counts too
                    self.milliseconds.append((perf_counter() - began) * 1000)
            else:
                self.milliseconds.append((perf_counter() - began) * 1000)
                if answer is not None:
                    return response.status, answer
                problem = f"status {response.status}"
            patience = PATIENCE
        raise RuntimeError(f"the shop does not answer {method} {path}: {problem}")

    def note(self, word: str, buyer: str, reservation: str) -> None:
        """Write down what a buyer was told, before anything else happens to him."""
        self.told.write(json.dumps({"told": word, "buyer": buyer, "reservation": reservation}) + "\n")
        self.told.flush()


async def report(crowd: Crowd) -> None:
    """Print how far the sale is, ten times a second."""
    while True:
        print(json.dumps(crowd.seen), flush=True)
        await asyncio.sleep(0.1)


async def play(url: str, buyers: int, seed: int, told: TextIO, *, trickle: bool) -> None:
    """Play the whole sale; the last line printed has the response times, too."""
    connector = aiohttp.TCPConnector(limit=CONNECTIONS)
    async with aiohttp.ClientSession(url, connector=connector) as shop:
        async with shop.get("/stock"):
            pass  # the doors are open
        crowd = Crowd(shop, told, seed)
        if trickle:
            await crowd.trickle()
        reporter = asyncio.create_task(report(crowd))
        await crowd.come(buyers)
        reporter.cancel()
        with suppress(asyncio.CancelledError):
            await reporter
    times = sorted(crowd.milliseconds)
    p50, p99 = (times[int(len(times) * share)] for share in (0.50, 0.99))
    print(json.dumps({**crowd.seen, "p50": round(p50, 2), "p99": round(p99, 2)}), flush=True)


def main() -> None:
    """Read the command line and play."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("url", help="the shop, such as http://127.0.0.1:8000")
    options.add_argument("--buyers", type=int, default=20_000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--told", type=Path, default=Path("told.jsonl"), help="where to write what buyers were told")
    options.add_argument("--trickle", action="store_true", help="let a few buyers come every second, until a signal")
    chosen = options.parse_args()
    with chosen.told.open("a") as told:
        asyncio.run(play(chosen.url, chosen.buyers, chosen.seed, told, trickle=chosen.trickle))


if __name__ == "__main__":
    main()
