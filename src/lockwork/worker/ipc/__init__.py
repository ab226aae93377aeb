"""The messages between a supervisor, its worker processes and their runners."""
