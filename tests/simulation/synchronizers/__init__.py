"""What lets processes keep step, in the simulator."""
