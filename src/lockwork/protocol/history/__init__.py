"""Jobs that have ended, and attempts that failed."""
