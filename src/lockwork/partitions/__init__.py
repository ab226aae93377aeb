"""Queues that are split into partitions: queues of their own, which a Cluster's shards share out."""
