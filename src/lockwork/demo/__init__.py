"""`lockwork demo`: plays the flash sale of examples/flashsale with real processes, kills a worker, and audits the end."""
