"""Schedules: calls of tasks that are enqueued by the clock, once per slot in the whole cluster."""
