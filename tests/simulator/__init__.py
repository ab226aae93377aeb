"""The simulator: the third driver, which runs the protocols in virtual time under seeded schedules with faults."""
