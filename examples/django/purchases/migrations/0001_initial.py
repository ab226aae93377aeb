"""The table of orders."""

from typing import ClassVar

from django.db import migrations, models
from django.db.migrations.operations.base import Operation


class Migration(migrations.Migration):
    """Create the table."""

    initial = True
    operations: ClassVar[list[Operation]] = [
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("email", models.EmailField(max_length=254)),
                ("charges", models.PositiveIntegerField(default=0)),
                ("state", models.CharField(default="new", max_length=20)),
            ],
        ),
    ]
