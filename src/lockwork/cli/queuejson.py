"""A queue as scripts read it: one document, whose names and meanings are stable."""

from __future__ import annotations

import json
from dataclasses import asdict

from lockwork.protocol.queue_status import QueueStatus
from lockwork.queue_limits import QueueLimits


def queue_json(name: str, status: QueueStatus, limits: QueueLimits) -> str:
    """Its jobs by place, its counters, whether it is paused, and its limits, null where there is none."""
    return json.dumps({"queue": name, **asdict(status), "limits": asdict(limits)}, indent=2)
