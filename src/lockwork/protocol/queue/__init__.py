"""One queue: jobs are enqueued, leased, and settled."""
