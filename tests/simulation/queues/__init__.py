"""Queues, and what lives with them, in the simulator."""
