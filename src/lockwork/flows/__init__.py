"""Flows: jobs that wait for each other."""
