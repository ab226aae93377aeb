"""The process tests' app, with a database for each test."""

from __future__ import annotations

from app_modules import own_app

forge = own_app("forge")
