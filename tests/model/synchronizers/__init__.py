"""State machines and models of barriers, latches, limiters and runs at most once per period."""
