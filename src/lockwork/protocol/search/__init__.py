"""A search of jobs, page by page."""
