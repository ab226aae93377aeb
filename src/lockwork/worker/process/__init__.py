"""The processes that run jobs, from start to exit: worker processes, and the runners of one."""
