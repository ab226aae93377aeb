"""Delay queues."""
