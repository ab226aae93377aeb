"""Django's tasks on Lockwork: the backend `lockwork.contrib.django.tasks.LockworkBackend`. See docs/django.md."""

from lockwork.contrib.django.tasks.backend import LockworkBackend
from lockwork.contrib.django.tasks.options import LockworkTask

__all__ = ["LockworkBackend", "LockworkTask"]
