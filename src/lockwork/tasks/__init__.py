"""Tasks: functions that can be enqueued, and what is given with each call."""
