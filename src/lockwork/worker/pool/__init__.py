"""The runner processes of a child, for tasks of `executor=process`."""
