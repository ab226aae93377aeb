"""Jobs that are enqueued when a database transaction has been committed, and not if it is rolled back."""

from __future__ import annotations
