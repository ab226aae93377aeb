"""The supervisor renews leases, fires schedules, starts worker processes, and replaces ended ones."""
