"""From the server to a free slot, through the job, to its outcome."""
