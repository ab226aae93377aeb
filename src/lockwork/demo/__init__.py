"""`lockwork demo`: plays the flash sale of examples/flashsale, kills a worker in the middle, and audits the end."""
