"""Sans-I/O: what to ask the server and what its answer means; no socket, clock, thread or event loop in here."""
