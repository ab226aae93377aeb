"""The parts of a job's record that a codec encrypts, signs or covers."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from lockwork.ids import slot_of
from lockwork.protocol.queue import envelope, record_header
from lockwork.protocol.queue.envelope import Envelope


class RecordParts(NamedTuple):
    """A job's record, in raw JSON."""

    header: bytes
    task: bytes
    args: bytes
    kwargs: bytes
    options: bytes
    rest: tuple[bytes, ...]
    length: int
    """Number of elements of the body."""

    @classmethod
    def read(cls, record: bytes) -> RecordParts:
        """Split a record; raises ValueError if it is no call."""
        header, _, body = record.partition(b";")
        parts = [bytes(part) for part in msgspec.json.decode(body, type=list[msgspec.Raw])]
        count = len(parts)
        if count < 2:
            raise ValueError("it is not a call of a task")
        task, args, kwargs, options = [*parts, b"{}", b"{}"][:4] if count < 4 else parts[:4]
        return cls(header, task, args, kwargs, options, tuple(parts[4:]), count)

    @property
    def arguments(self) -> bytes:
        """The payload: `[args, kwargs]`."""
        return b"[%b,%b]" % (self.args, self.kwargs)

    @property
    def sealed(self) -> Envelope | None:
        """The encrypted arguments."""
        return envelope.unpack(self.args[1:-1]) if self.args[:2] == b'"~' else None

    @property
    def unique(self) -> str:
        """The task and the unique name in the header."""
        names = self.header.split(b",")
        return names[5].decode(errors="surrogateescape") if len(names) > 5 else ""

    @property
    def covered_header(self) -> bytes:
        """The header without what the server changes: the mark of a flow's job, and the `retry_until`."""
        return record_header.without_retry_until(self.header.removesuffix(b",>").rstrip(b","))

    def identity(self, bound: str, id: str) -> str:
        """Return what a payload of this job is bound to."""
        if bound == "unique":
            return self.unique
        if bound == "schedule":
            slot = slot_of(id)
            return "" if slot is None else slot[0]
        return id

    def with_arguments(self, packed: bytes) -> bytes:
        """Return the record with encrypted arguments."""
        parts = [self.task, b'"%b"' % packed]
        if self.length > 3:
            parts += [b"{}", self.options, *self.rest]
        return self.header + b";[" + b",".join(parts) + b"]"

    def with_signature(self, packed: bytes) -> bytes:
        """Return the record with a signature among its options."""
        comma = b"" if self.options == b"{}" else b","
        options = b'%b%b"sig":"%b"}' % (self.options[:-1], comma, packed)
        parts = (self.task, self.args, self.kwargs, options, *self.rest)
        return self.header + b";[" + b",".join(parts) + b"]"

    def plain(self, arguments: bytes) -> bytes:
        """Return the record with these arguments, `[args, kwargs]`."""
        args, kwargs = map(bytes, msgspec.json.decode(arguments, type=tuple[msgspec.Raw, msgspec.Raw]))
        parts = (self.task, args, kwargs, self.options, *self.rest)
        return self.header + b";[" + b",".join(parts) + b"]"


def split_signature(fields: bytes) -> tuple[Envelope | None, bytes]:
    """Take the signature out of an encoded object; return both. Other data has no signature."""
    try:
        raw = msgspec.json.decode(fields, type=dict[str, msgspec.Raw])
        mark = raw.pop("sig", None)
        sealed = None if mark is None else envelope.unpack(bytes(mark)[1:-1])
    except ValueError:
        return None, fields
    return None if sealed is None else sealed._replace(payload=b"-"), msgspec.json.encode(raw)
