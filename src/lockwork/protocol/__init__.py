"""Sans-I/O: the calls to the server and the meaning of its replies, without socket, clock, thread or event loop."""
