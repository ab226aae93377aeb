"""The messages that a worker process receives from its supervisor."""

from __future__ import annotations

import asyncio
import os

import pytest

from lockwork.protocol.queue.leases import Outcome
from lockwork.worker.ipc.messages import KilledJob, PipeControl, RaiseUrgency, UnreportedEnd, Urgency, encoded_line

_ENDED = KilledJob("q", "task", Outcome("a", b"1 2 x", "d"), 1.5)


async def _received(lines: bytes) -> tuple[Urgency, KilledJob | UnreportedEnd]:
    """Read `lines` while the supervisor lives; return the urgency, and the job that follows them."""
    reading, writing = os.pipe()
    reader = asyncio.StreamReader()
    control = PipeControl(reader, reading)
    try:
        reader.feed_data(lines + encoded_line(_ENDED))
        job = await asyncio.wait_for(control.ended.get(), 10)
        return control.urgency, job
    finally:
        await control.close()
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize("urgency", [Urgency.QUIET, Urgency.RETIRE, Urgency.STOP])
def test_supervisor_raises_urgency(urgency: Urgency) -> None:
    lines = encoded_line(RaiseUrgency(urgency)) + encoded_line(RaiseUrgency(Urgency.QUIET))
    assert asyncio.run(_received(lines)) == (urgency, _ENDED)


@pytest.mark.parametrize(
    "line", [b"", b"stop", b"\xff", b'["RaiseUrgency"]', b'["RaiseUrgency",9]', b'["KilledJob","q"]', b"[" * 16_384]
)
def test_unreadable_message_is_logged_and_skipped(line: bytes, caplog: pytest.LogCaptureFixture) -> None:
    assert asyncio.run(_received(line + b"\n")) == (Urgency.WORK, _ENDED)
    assert "a message from the supervisor cannot be read" in caplog.text
