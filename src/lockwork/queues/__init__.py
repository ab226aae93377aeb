"""Queues as their operators see them."""
