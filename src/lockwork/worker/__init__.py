"""The worker: a supervisor process that keeps the leases, and child processes that run the jobs; one duty per file."""
