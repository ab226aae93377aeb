"""Queues, and what lives with them, against plain models."""
