"""Settings; PROJECT_SETTINGS in the environment adds some, as JSON."""

import json
import os
from pathlib import Path
from typing import Any

from lockwork.contrib.cryptography import AesGcmCodec

SECRET_KEY = "a secret of the tests, longer than fifty characters, and not random"
DEBUG = True
ALLOWED_HOSTS = ["*"]
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "orders",
    "lockwork.contrib.django",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
ROOT_URLCONF = "config.urls"
FOLDER = Path(os.environ.get("PROJECT_DATA", "."))
DATABASES: dict[str, dict[str, Any]] = {
    name: {"ENGINE": "django.db.backends.sqlite3", "NAME": FOLDER / f"{name}.sqlite3", "OPTIONS": {"timeout": 20}}
    for name in ("default", "archive")
}
CACHES = {
    "default": {
        "BACKEND": "lockwork.contrib.django.cache.RedisCache",
        "LOCATION": os.environ.get("LOCKWORK_URL", "redis://127.0.0.1:1"),
        "KEY_PREFIX": "shop",
    }
}
USE_TZ = True
LANGUAGE_CODE = "en"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LOCKWORK: dict[str, Any] = {"patience": 5}

for name, value in json.loads(os.environ.get("PROJECT_SETTINGS", "{}")).items():
    if name == "CONN_MAX_AGE":
        DATABASES["default"][name] = value
    elif isinstance(value, dict) and isinstance(globals().get(name), dict):
        globals()[name] = {**globals()[name], **value}
    else:
        globals()[name] = value
if "PROJECT_KEYS" in os.environ:
    LOCKWORK["codec"] = AesGcmCodec.from_env("PROJECT_KEYS")
