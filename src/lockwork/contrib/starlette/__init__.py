"""Starlette and FastAPI: the app's lifespan, rate limits, Idempotency-Key, and the progress of jobs as events.

Needs lockwork[starlette]. See docs/fastapi.md.
"""

from lockwork.contrib.starlette.idempotency import IdempotencyKeys
from lockwork.contrib.starlette.job_events import job_events
from lockwork.contrib.starlette.lifespan import get_lockwork, lifespan
from lockwork.contrib.starlette.rate_limits import limited, rate_limit

__all__ = ["IdempotencyKeys", "get_lockwork", "job_events", "lifespan", "limited", "rate_limit"]
