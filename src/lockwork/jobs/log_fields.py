"""Names the job in every log line that it writes."""

from __future__ import annotations

import logging

from lockwork.jobs.current import slot


class JobFields(logging.Filter):
    """A logging filter that adds `job`, `task`, `queue` and `attempt` to records of a job; it drops no record.

    Outside of a job the fields are None, so that a format can use them. In a batch task, `job` and `attempt` are None.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields that the record lacks."""
        mine = slot.get()
        job = mine.job or (mine.batch[0] if mine.batch else None) if mine is not None else None
        alone = job is not None and mine is not None and not mine.batch
        for name in ("job", "task", "queue", "attempt"):
            if not hasattr(record, name):
                has_value = job is not None and (alone or name in ("task", "queue"))
                setattr(record, name, getattr(job, "id" if name == "job" else name) if has_value else None)
        return True
