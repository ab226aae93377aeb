"""The app of the job handle tests with a shared worker, and with a database for each test."""

from __future__ import annotations

from app_modules import own_app, shared_app

busy_url, handled, ahandled = shared_app("handled")
own = own_app("handled")
