"""Hypothesis state machines: the real scripts on a real server, against plain Python models."""
