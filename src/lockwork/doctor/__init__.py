"""Diagnoses problems of a server and suggests changes: rules over an overview, and the list of findings."""
