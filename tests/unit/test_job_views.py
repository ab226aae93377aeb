"""Snapshots of jobs with any data on the server."""

from __future__ import annotations

import pytest

from lockwork.jobs.snapshot import JobError, snapshot
from lockwork.protocol.queue.job_control import JobDetails, Note

_DEEP = b"[" * 100_000


def seen(error: bytes, record: bytes = b"", note: Note | None = None) -> JobDetails:
    return JobDetails("dead", 1, None, None, note or Note(), error, record)


@pytest.mark.parametrize(
    "stored", [b"", b"{", b"5", b"\xff", b'{"type":5}', _DEEP], ids=lambda stored: repr(stored[:9])
)
def test_malformed_error_is_shown_as_text(stored: bytes) -> None:
    error = snapshot("a", "mail", seen(stored)).error
    assert error is not None
    assert error.traceback == ""
    assert (error.type, error.text) == (("5", "") if stored[:1] == b"{" and len(stored) > 1 else ("", error.text))


def test_job_error_has_the_attributes_of_job_failed() -> None:
    stored = b'{"type":"OSError","message":"disk full","traceback":"line 1"}'
    assert snapshot("a", "mail", seen(stored)).error == JobError("OSError", "disk full", "line 1")


@pytest.mark.parametrize("record", [b"", b"1,4", b"1,4;5", b"1,4;" + _DEEP])
def test_malformed_record_has_no_task(record: bytes) -> None:
    job = snapshot("a", "mail", seen(b"{}", record))
    assert (job.task, job.tags) == (None, ())


def test_options_that_cannot_be_read_have_no_tags() -> None:
    job = snapshot("a", "mail", seen(b"{}", b'1,4;["send",[],{},5]'))
    assert (job.task, job.tags) == ("send", ())


def test_job_notes_without_valid_json_are_none() -> None:
    job = snapshot("a", "mail", seen(b"{}", note=Note("{", {"one": "1", "odd": _DEEP.decode()})))
    assert (job.progress, job.checkpoints) == (None, {"one": 1, "odd": None})
