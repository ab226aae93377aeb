"""Locks and their kin, against plain models."""
