"""Encrypted and signed payloads: arguments, results, and everything else that jobs store."""
