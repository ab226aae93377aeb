"""What is granted, kept alive and given back: locks, permits, and who waits for them."""
