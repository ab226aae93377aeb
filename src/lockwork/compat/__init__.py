"""Locks in the formats of other programs, to share a key with them."""
