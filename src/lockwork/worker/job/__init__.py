"""One job while it runs: its context, its place, its call, its thread."""
