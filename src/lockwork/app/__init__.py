"""The facade: `Lockwork` and its groups of methods, one per concept."""
