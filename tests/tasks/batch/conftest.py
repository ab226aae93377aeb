"""The app of the batch tests, with a database for each test."""

from __future__ import annotations

from app_modules import own_app

batched = own_app("batched")
