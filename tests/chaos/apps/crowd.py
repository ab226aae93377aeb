"""The jobs of the chaos run: each attempt appends a line before it does anything."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys

from lockwork import Lockwork, current_job
from lockwork.protocol import jobs
from lockwork.protocol.scripts import Script, script

HISTORY = os.environ["CHAOS_HISTORY"]
BROKEN = os.environ.get("CHAOS_BROKEN") == "1"

if BROKEN:
    # the twin that must be caught: whoever says that a job is done is believed, whether or not it is still his
    _CHECK = "if tokens[index] ~= token then"

    def _without_check(name: str) -> Script:
        real = script(name)
        if name != "jobs_settle":
            return real
        if _CHECK not in real.source:
            sys.exit(f"{name}.lua has changed: break it in another way")
        return Script(name, real.source.replace(_CHECK, "if false then"))

    jobs.script = _without_check  # type: ignore[attr-defined,assignment]

lw = Lockwork()
_file = os.open(HISTORY, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


@lw.task(retries=200, backoff=0, keep_result=False)
async def step(number: int) -> None:
    job = current_job()
    line = {"event": "run", "number": number, "id": job.id, "attempt": job.attempt, "fence": job.fence}
    os.write(_file, json.dumps(line).encode() + b"\n")
    await asyncio.sleep(random.uniform(0.02, 0.08))
