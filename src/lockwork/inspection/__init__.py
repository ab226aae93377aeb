"""The state of queues, workers, apps and locks for all views: one reader, and names of lock owners."""
