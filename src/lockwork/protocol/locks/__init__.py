"""Locks: grants, renewals, releases and waiters."""
