"""A store that charges its orders in jobs."""
