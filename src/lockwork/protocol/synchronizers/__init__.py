"""What lets processes keep step."""
