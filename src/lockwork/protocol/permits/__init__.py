"""Permits: what a semaphore and a read-write lock are to the server."""
