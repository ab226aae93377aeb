"""Integrations with other libraries; the core does not depend on them."""
