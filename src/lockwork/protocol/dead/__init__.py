"""Dead jobs."""
