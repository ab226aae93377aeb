"""Errors of jobs in the log: one record is one line, even if the error's text contains line breaks."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from lockwork.failures import Errors, line
from lockwork.jobs.fake import serverless_queue
from lockwork.protocol.queue.leases import Leased, Outcome
from lockwork.tasks.options import TaskOptions
from lockwork.worker.execution.job_log import PERIOD, JobLog
from lockwork.worker.execution.outcomes import Outcomes

FORGED = "no\n2026-11-21 12:00:00 ERROR forged\r\x1b[2J\x00\x9b\u2028\u2029\u202e\u2066"


class _Settled:
    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def add(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)

    async def confirmed(self, id: str) -> bool:
        return False


def test_error_text_is_escaped_to_one_line() -> None:
    logged = line(ValueError(FORGED))
    assert logged == (r"ValueError: no\n2026-11-21 12:00:00 ERROR forged\r\x1b[2J\x00\x9b\u2028\u2029\u202e\u2066")
    assert logged.isprintable()
    assert line(ValueError("größer: 数")) == "ValueError: größer: 数"


@pytest.mark.parametrize("attempt", [1, 4])
def test_failed_job_is_logged_in_one_line(caplog: pytest.LogCaptureFixture, attempt: int) -> None:
    settled = _Settled()
    endings = Outcomes(settled, Errors(), 1000, serverless_queue("default"), JobLog())
    job: Any = Leased("id", b"1 x", b"1,4,,;", attempt, 7)
    endings.failed(job, ValueError(FORGED), TaskOptions())
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert record.getMessage().isprintable()
    assert len(record.getMessage().splitlines()) == 1
    # the stored error contains the original text
    assert rb"\n2026-11-21" in settled.outcomes[0].value


def _refuses() -> None:
    raise ValueError("not today")


async def test_failure_record_has_traceback(caplog: pytest.LogCaptureFixture) -> None:
    endings = Outcomes(_Settled(), Errors(), 1000, serverless_queue("mail"), JobLog())
    job: Any = Leased("id", b"1 x", b"1,4,,;", 1, 7)
    try:
        _refuses()
    except ValueError as error:
        endings.failed(job, error, TaskOptions(), "refuse")
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[2] is not None
    assert record.exc_info[2].tb_frame.f_code.co_name == "test_failure_record_has_traceback"
    seen = vars(record)
    assert (seen["job"], seen["task"], seen["queue"], seen["attempt"]) == ("id", "refuse", "mail", 1)


async def test_busy_task_is_logged_in_summaries(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log = JobLog()
    job: Any = Leased("id", b"1 x", b"1,4,,;", 1, 7)

    def logged(jobs: int, seconds: float = 0.001) -> list[str]:
        """Return the records of a period with this number of jobs."""
        caplog.clear()
        for _ in range(jobs):
            log.succeeded(job, "send", "mail", seconds)
        log._began -= PERIOD
        log._turn()
        return [record.getMessage() for record in caplog.records]

    assert logged(50) == ["job id of task 'send' succeeded, attempt 1, in 0.001 s"] * 50
    assert len(logged(500)) == 51, "the first 50 were logged one by one"
    (line,) = logged(500)
    assert line.startswith("500 jobs of task 'send' succeeded in 1.0 s: 1.000 ms each on average, 1.000 ms at most")
    assert len(logged(3)) == 1
    assert len(logged(3)) == 3
    assert logged(0) == []
    assert log._timer is None, "an idle process is not woken"
    logged(500)
    caplog.clear()
    log.succeeded(job, "send", "mail", 0.001)
    log.close()
    assert len(caplog.records) == 1
    assert log._timer is None
