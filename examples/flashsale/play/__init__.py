"""`lockwork demo`: plays the flash sale of this folder, kills a worker in the middle, and audits the end."""
