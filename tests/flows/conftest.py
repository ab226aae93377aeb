"""The app of the flow tests with a shared worker, and the app with a database for each test."""

from __future__ import annotations

from app_modules import own_app, shared_app

busy_url, flowing, aflowing = shared_app("flowing")
own = own_app("flowing")
idle = own_app("crossing")
