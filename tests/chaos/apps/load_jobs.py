"""The jobs of the chaos run: each attempt appends a line at its start and a line at its end.

CHAOS_BROKEN names a mutant: `settle` accepts outcomes of any worker, `key` ignores running jobs of a key, and `forget`
returns no job of a dead worker.
CHAOS_PARTITIONS is the app's `partitions` setting, in JSON.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time

import msgspec

from lockwork import Lockwork, current_job
from lockwork.protocol import effects
from lockwork.protocol.scripts import Script, script

HISTORY = os.environ["CHAOS_HISTORY"]
BROKEN = os.environ.get("CHAOS_BROKEN", "")
LONGEST = float(os.environ.get("CHAOS_LONGEST", "0.04"))
_EDITS = {
    "settle": ("queue/settle", "if tokens[index] ~= token then", "if false then"),
    "key": ("queue/reserve", "if holder and holder ~= id then", "if false then"),
    "forget": ("queue/recover", "suspect(id, tried and string.match(token, ' (%d+)') or 0)", ""),
}

if BROKEN:
    _broken, _check, _instead = _EDITS[BROKEN]

    def _without_check(name: str) -> Script:
        real = script(name)
        if name != _broken:
            return real
        if _check not in real.source:
            sys.exit(f"{name}.lua has changed: break it in another way")
        return Script(name, real.source.replace(_check, _instead), real.declared)

    effects.script = _without_check  # type: ignore[attr-defined,assignment]

lw = Lockwork(partitions=msgspec.json.decode(os.environ.get("CHAOS_PARTITIONS", "{}")))
_file = os.open(HISTORY, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
_process = {"pid": os.getpid(), "parent": os.getppid(), "born": time.time()}


def _note(event: str, number: int) -> None:
    job = current_job()
    line = {
        "event": event, "number": number, "attempt": job.attempt, "fence": job.fence, "at": time.time(), **_process
    }  # fmt: skip
    os.write(_file, msgspec.json.encode(line) + b"\n")


async def _work(number: int) -> None:
    _note("run", number)
    await asyncio.sleep(random.uniform(0, LONGEST))
    _note("end", number)


@lw.task(retries=0, keep_result=False)
async def step(number: int) -> None:
    await _work(number)


@lw.task(retries=0, keep_result=False, key="{key}")
async def in_order(number: int, key: str) -> None:
    await _work(number)


@lw.task(retries=0, keep_result=False, group="{tenant}", group_concurrency=3)
async def shared(number: int, tenant: str) -> None:
    await _work(number)
