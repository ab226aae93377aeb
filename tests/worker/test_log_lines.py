"""What jobs fail with, in the log: one record is one line, whatever an error's text holds."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from lockwork.failures import Errors, line
from lockwork.protocol.queues.jobs import Leased, Outcome
from lockwork.tasks.settings import TaskOptions
from lockwork.worker.executing.endings import Endings

FORGED = "no\n2026-11-21 12:00:00 ERROR forged\r\x1b[2J\x00\x9b\u2028\u2029\u202e\u2066"


class _Settled:
    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def add(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)


def test_an_error_is_one_line() -> None:
    said = line(ValueError(FORGED))
    assert said == (r"ValueError: no\n2026-11-21 12:00:00 ERROR forged\r\x1b[2J\x00\x9b\u2028\u2029\u202e\u2066")
    assert said.isprintable()
    assert line(ValueError("größer: 数")) == "ValueError: größer: 数"


@pytest.mark.parametrize("attempt", [1, 4])
def test_so_is_the_record_of_a_job_that_failed(caplog: pytest.LogCaptureFixture, attempt: int) -> None:
    settled = _Settled()
    endings = Endings(settled, Errors(), 1000)
    job: Any = Leased("id", b"1 x", b"1,4,,;", attempt, 7)
    endings.failed(job, ValueError(FORGED), TaskOptions())
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert record.getMessage().isprintable()
    assert len(record.getMessage().splitlines()) == 1
    # what is kept for people and programs is the text itself
    assert rb"\n2026-11-21" in settled.outcomes[0].value
