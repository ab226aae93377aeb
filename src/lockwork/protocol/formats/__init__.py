"""Locks in the formats of other programs."""
