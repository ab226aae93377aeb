"""Locks and their kin, in the simulator."""
