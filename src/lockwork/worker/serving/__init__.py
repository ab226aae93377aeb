"""The processes that run jobs, from their start to their end: children, and the runners of a child."""
