"""A queue as scripts read it: one document, whose names and meanings are stable."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from lockwork.protocol.queues.status import QueueStatus
from lockwork.queues.limits import QueueLimits


def queue_json(name: str, status: QueueStatus, limits: QueueLimits) -> str:
    """Its jobs by place, its counters, whether it is paused, and its limits, null where there is none."""
    return json.dumps(_queue(name, status, limits), indent=2)


def queues_json(seen: Sequence[tuple[str, QueueStatus, QueueLimits]]) -> str:
    """The same of all queues, in a list."""
    return json.dumps({"queues": [_queue(*each) for each in seen]}, indent=2)


def _queue(name: str, status: QueueStatus, limits: QueueLimits) -> dict[str, Any]:
    return {"queue": name, **asdict(status), "limits": asdict(limits)}
