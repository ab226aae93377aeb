"""Metrics of the server and the workers."""
