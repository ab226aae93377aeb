"""`make peers`: Lockwork beside other job queues, on the same machine, in the same run."""
