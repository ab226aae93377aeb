"""Synchronizers that have no owner: latch, barrier, limiter, once."""
