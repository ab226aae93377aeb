"""What a supervisor and its children know of each other, and say to each other."""
