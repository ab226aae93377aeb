"""Tasks: functions that can be enqueued, their options, and how a call becomes a job."""
