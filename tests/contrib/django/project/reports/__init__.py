"""An app with tasks of Django."""
