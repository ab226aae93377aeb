"""Synchronizers: barrier, latch, limiter and once."""
