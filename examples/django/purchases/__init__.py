"""Orders, and the jobs that charge them."""
