"""Permits: the server's data structure of semaphores and read-write locks."""
