"""Running protocols against a real server: drivers, the engine thread, connections, the embedded server."""
