"""Orders."""

from django.db import models


class Order(models.Model):
    """An order, and how often it was charged."""

    email = models.EmailField()
    charges = models.PositiveIntegerField(default=0)
    state = models.CharField(max_length=20, default="new")
