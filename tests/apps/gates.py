"""Gates: files for whose creation jobs wait."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path


async def opened(gate: str) -> None:
    """Wait until the file exists."""
    while not Path(gate).exists():
        await asyncio.sleep(0.01)


def wait_for(gate: str) -> None:
    """Wait until the file exists; blocks."""
    while not Path(gate).exists():
        time.sleep(0.01)
