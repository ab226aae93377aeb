"""What lets processes keep step with each other without holding anything: latch, barrier, limiter, once."""
