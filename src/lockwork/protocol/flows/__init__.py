"""Flows: jobs that wait for other jobs."""
