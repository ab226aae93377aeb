"""What workers and apps announce."""
