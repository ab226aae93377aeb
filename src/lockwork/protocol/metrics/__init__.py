"""Counts and times of jobs."""
