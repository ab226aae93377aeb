"""From a leased record to an outcome."""
