"""The index of the names of queues, stocks, limiters and locks."""
