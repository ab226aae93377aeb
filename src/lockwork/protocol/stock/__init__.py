"""Stocks."""
