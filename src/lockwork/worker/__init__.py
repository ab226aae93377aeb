"""The worker: a supervisor process that renews the leases, and child processes that run the jobs."""
