"""The supervisor: keeps leases and schedules going, starts children, and replaces those that end."""
