"""Reads the encrypted data of a job, in an app that has the keys."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from lockwork.payloads.payloads import Kind, Payloads
from lockwork.protocol.history.history import PastAttempt
from lockwork.protocol.queue.envelope import is_packed
from lockwork.protocol.queue.job_control import JobDetails, Note


def opened_details(payloads: Payloads, queue: str, id: str, details: JobDetails) -> JobDetails:
    """Return the details with plain values, as far as this app can read them; never raises."""
    reader = _Reader(payloads, queue, id)
    note, row = details.note, details.row
    steps = {name: reader.text("checkpoint", value, name) for name, value in note.steps.items()}
    if row is not None:
        whole = len(row.record) == row.size
        record = reader.record(row.record) if whole else row.record
        row = row._replace(
            record=record, size=len(record) if whole else row.size, timeline=reader.timeline(row.timeline)
        )
    return replace(
        details,
        note=Note(reader.text("progress", note.progress), steps),
        blob=reader.outcome(details.state, details.blob),
        record=reader.record(details.record),
        timeline=reader.timeline(details.timeline),
        row=row,
    )


class _Reader:
    """Reads the values of one job; a value that cannot be read becomes, or stays, one that is shown as encrypted."""

    def __init__(self, payloads: Payloads, queue: str, id: str) -> None:
        self._payloads, self._queue, self._id = payloads, queue, id

    def value(self, kind: Kind, stored: bytes, name: str = "") -> bytes:
        try:
            return self._payloads.open_value(kind, self._queue, self._id, stored, name) if stored else stored
        except Exception:  # noqa: BLE001 - a codec of the app may raise anything
            return stored if is_packed(stored) else b"~"

    def text(self, kind: Kind, stored: str, name: str = "") -> str:
        return self.value(kind, stored.encode(), name).decode()

    def record(self, stored: bytes) -> bytes:
        try:
            return self._payloads.open_call(self._queue, self._id, stored) if stored else stored
        except Exception:  # noqa: BLE001 - as above
            return stored

    def outcome(self, state: str, blob: bytes) -> bytes:
        if state == "dead":
            return self._payloads.open_error(self._queue, self._id, blob)
        if blob[:1] == b"f":
            return b"f" + self._payloads.open_error(self._queue, self._id, blob[1:])
        return b"s" + self.value("result", blob[1:]) if blob[:1] == b"s" else blob

    def timeline(self, attempts: Sequence[PastAttempt]) -> list[PastAttempt]:
        return [each._replace(text=self._payloads.open_text(self._queue, self._id, each.text)) for each in attempts]
