"""Jobs from being enqueued to their end, and what belongs to their queue."""
