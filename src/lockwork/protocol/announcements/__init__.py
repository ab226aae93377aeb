"""Announcements of workers and apps."""
