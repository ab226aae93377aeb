"""One table."""

import os

from django.db import models

if os.environ.get("PROJECT_EARLY"):
    from lockwork.contrib.django import lw

    lw.queue("default")


class Order(models.Model):
    """An order and what became of it."""

    state = models.CharField(max_length=200, default="new")
