"""The queue tests' app with a shared worker, and apps with a database for each test."""

from __future__ import annotations

from app_modules import own_app, shared_app

busy_url, chores, achores = shared_app("chores")
own = own_app("chores")
uniques = own_app("uniques")
