"""From the server to a free place, and back: leasing jobs, and settling their outcomes."""
