"""Dead jobs as scripts read them: one document, whose names and meanings are stable; times are in seconds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from lockwork.protocol.queues.dead import DeadGroup, DeadJob, DeadPage


def jobs_json(pages: Mapping[str, DeadPage]) -> str:
    """The jobs of each queue, and where the next page begins."""
    return _document(
        {
            queue: {"jobs": [_job(job) for job in page.jobs], "next": page.next, "problem": page.problem}
            for queue, page in pages.items()
        }
    )


def groups_json(groups: Mapping[str, Sequence[DeadGroup]]) -> str:
    """The groups of each queue."""
    return _document({queue: {"groups": [_group(group) for group in found]} for queue, found in groups.items()})


def job_json(job: DeadJob) -> str:
    """All of one job."""
    return json.dumps(_job(job), indent=2)


def _document(queues: dict[str, Any]) -> str:
    return json.dumps({"queues": queues}, indent=2)


def _job(job: DeadJob) -> dict[str, Any]:
    return {
        "id": job.id,
        "task": job.call.task,
        "args": job.call.args,
        "kwargs": job.call.kwargs,
        "priority": job.call.priority,
        "attempts": job.attempts,
        "crashes": job.crashes,
        "deliveries": job.call.deliveries,
        "size": job.call.size,
        "cut": job.call.cut,
        "problem": job.call.problem,
        "error": {"type": job.error.type, "text": job.error.text, "traceback": job.error.traceback},
        "dead_for": job.dead_for,
        "age": job.age,
    }


def _group(group: DeadGroup) -> dict[str, Any]:
    return {
        "error": group.error,
        "task": group.task,
        "count": group.count,
        "oldest": group.oldest,
        "newest": group.newest,
        "example": _job(group.example),
    }
