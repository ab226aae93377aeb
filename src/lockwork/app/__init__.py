"""The `Lockwork` class, and the parts that it consists of."""
