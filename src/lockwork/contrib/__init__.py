"""Integrations with other libraries; the core does not know them."""
