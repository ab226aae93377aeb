"""Runs of barriers, latches, limiters and once-per-period tasks in the simulator."""
