"""Jobs that do to their process what no job should; `path` is a file to which each attempt appends a line."""

from __future__ import annotations

import asyncio
import subprocess
import sys

from lockwork import Lockwork

lw = Lockwork()


@lw.task(retries=0)
def starts_a_program_that_reads() -> tuple[int, str]:
    program = subprocess.run(
        [sys.executable, "-c", "import sys; print(repr(sys.stdin.read()))"], stdout=-1, check=False
    )
    return program.returncode, program.stdout.decode().strip()


@lw.task(retries=0)
async def rests(seconds: float) -> None:
    await asyncio.sleep(seconds)
