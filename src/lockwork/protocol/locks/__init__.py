"""Locks and permits: granted, renewed and released, and their waiters."""
