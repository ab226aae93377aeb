"""What the server and the workers measured."""
