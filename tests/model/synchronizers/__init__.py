"""What lets processes keep step, against plain models."""
