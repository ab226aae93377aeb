"""State machines and models of locks, semaphores, multilocks and quorums."""
