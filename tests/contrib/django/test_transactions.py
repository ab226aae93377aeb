"""Tasks with the option `on_commit`; the cases are tests of the project, in Django's own test classes."""

from __future__ import annotations

import re

from django_project import DjangoProject


def test_jobs_wait_for_the_commit(project: DjangoProject) -> None:
    said = project.output("test", "orders.transaction_cases")
    assert "\nOK\n" in said
    assert int(re.findall(r"Ran (\d+) tests", said)[0]) >= 18


def test_setting_makes_it_the_default(project: DjangoProject) -> None:
    project.configure({"LOCKWORK": {"on_commit": True}})
    code = """
from django.db import transaction
from orders.tasks import ship
with transaction.atomic():
    job = ship.enqueue(1)
    now = ship.options(on_commit=False).enqueue(2)
    print(job.state(), now.state())
print(job.state())
"""
    assert "unknown ready\nready" in project.output("shell", "-c", code)
