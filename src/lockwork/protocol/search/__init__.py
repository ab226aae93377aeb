"""Search jobs, page by page."""
