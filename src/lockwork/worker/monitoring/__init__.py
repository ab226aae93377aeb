"""What probes and Prometheus are told of a worker."""
