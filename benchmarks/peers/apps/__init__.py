"""An app of each queue. Its `enqueue(kind, times)` enqueues a job for each time, in the way that its manual advises."""
