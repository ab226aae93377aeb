"""Queues: limits, dead jobs, locks and stocks that live with a queue, and delay queues."""
