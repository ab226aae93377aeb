"""Runs the examples of the Django page as printed, in a project around them."""

from __future__ import annotations

import os
import re
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import django

import zygote
from processes import Started, started

PAGE = Path(__file__).parents[2] / "docs" / "django.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
SETTINGS = """
from pathlib import Path

APPS = ["django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.messages",
    "django.contrib.sessions", "orders"]
SECRET_KEY = "of the tests"
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
MIDDLEWARE = ["django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware"]
TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True, "OPTIONS": {
    "context_processors": ["django.template.context_processors.request", "django.contrib.auth.context_processors.auth",
        "django.contrib.messages.context_processors.messages"]}}]
DATABASES = {name: {"ENGINE": "django.db.backends.sqlite3", "NAME": Path(__file__).with_name(f"{name}.sqlite3"),
    "OPTIONS": {"timeout": 20}} for name in ("default", "archive")}
"""
FILES = {
    "manage.py": """
import os, sys
from django.core.management import execute_from_command_line
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
execute_from_command_line(sys.argv)
""",
    "orders/__init__.py": "",
    "orders/models.py": """
from django.db import models

class Order(models.Model):
    state = models.CharField(max_length=200, default="new")
""",
    "urls.py": """
from django.contrib import admin
from django.urls import path
from orders import views

urlpatterns = [path("admin/", admin.site.urls)]
if hasattr(views, "create"):
    urlpatterns.append(path("orders", views.create))
if hasattr(views, "show_invoice"):
    urlpatterns.append(path("invoices/<id>", views.show_invoice))
""",
    "orders/views.py": "",
}
BEGIN = """
import os
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
import django
django.setup()
"""


def example(text: str) -> str:
    """The example that contains this text, with the tasks of django-tasks where Django has none."""
    (code,) = [each for each in EXAMPLES if text in each]
    if django.VERSION < (6,):
        code = code.replace("from django.tasks import", "from django_tasks import")
    return str(code)


SHIP, CREATE, ON_COMMIT, OPTIONS = "def ship(number: int) -> None:\n    Order", "def create", "archive", "retries=5"
BACKEND, INVOICE, REFRESH, SHOW = "LockworkBackend", "def invoice", "refresh()", "def show_invoice"
INSTALLED, ASGI, LIMITED, CACHES, LOCK = "INSTALLED_APPS", "with_dashboard", "@limited", "CACHES", "cache.lock("


def test_page_has_no_example_without_a_test() -> None:
    texts = [SHIP, CREATE, ON_COMMIT, OPTIONS, BACKEND, INVOICE, REFRESH, SHOW, INSTALLED, ASGI, LIMITED, CACHES, LOCK]
    assert sorted(map(example, texts)) == sorted(map(example, EXAMPLES))


class Project:
    """A Django project in an empty folder; its database has the table of its model."""

    def __init__(self, folder: Path, url: str, files: dict[str, str]) -> None:
        self.folder = folder
        self.url = url
        installed = example(INSTALLED).replace("...", "*APPS")
        settings = SETTINGS + installed + example(BACKEND) + example(CACHES)
        for name, text in (FILES | {"settings.py": settings} | files).items():
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        self.output("manage.py", "migrate", "--run-syncdb", "-v0")

    def output(self, *command: str) -> str:
        """Run a Python program, and return its output."""
        environment = os.environ | {"LOCKWORK_URL": self.url, "PYTHONPATH": ":".join(sys.path)}
        done = zygote.run([sys.executable, *command], cwd=self.folder, env=environment, text=True, timeout=100)
        assert done.returncode == 0, done.stdout + done.stderr
        return str(done.stdout)

    def run(self, code: str) -> list[str]:
        """Run code in the project, and return the lines that it prints."""
        return self.output("-c", BEGIN + code).splitlines()

    def worker(self) -> AbstractContextManager[Started]:
        return started([sys.executable, "manage.py", "lockwork", "worker"], folder=self.folder, url=self.url)


def test_order_is_shipped_after_its_commit(own_url: str, tmp_path: Path) -> None:
    project = Project(tmp_path, own_url, {"orders/tasks.py": example(SHIP), "orders/views.py": example(CREATE)})
    with project.worker():
        assert project.run(CREATES) == ["200 1"]


CREATES = """
from django.test import Client
from orders.models import Order
from processes import until
answer = Client().get("/orders")
print(answer.status_code, answer.text)
until(lambda: Order.objects.get().state == "shipped", "the worker ships it", 60)
"""


def test_invoice_is_written_by_a_worker_and_shown(own_url: str, tmp_path: Path) -> None:
    views = f"{IMPORTS_OF_VIEWS}\n\n{example(SHOW)}"
    project = Project(tmp_path, own_url, {"orders/tasks.py": example(INVOICE), "orders/views.py": views})
    enqueued = project.run(f"from orders.tasks import invoice\n{example(REFRESH)}\nprint(result.id)")
    assert enqueued[0] == "READY [] None"
    with project.worker():
        assert project.run(SHOWS.format(id=enqueued[1])) == [
            "{'status': 'SUCCESSFUL', 'text': 'invoice 42', 'attempts': 1}",
            "404",
        ]


IMPORTS_OF_VIEWS = """
from django.http import Http404, JsonResponse
from orders.tasks import invoice
try:
    from django.tasks.exceptions import TaskResultDoesNotExist, TaskResultMismatch
except ImportError:
    from django_tasks.exceptions import TaskResultDoesNotExist, TaskResultMismatch
"""
SHOWS = """
from django.test import Client
from processes import until

def show():
    return Client().get("/invoices/{id}").json()

until(lambda: show()["status"] == "SUCCESSFUL", "the worker writes it", 60)
print(show())
print(Client().get("/invoices/none").status_code)
"""


def test_other_examples_run_in_a_project(own_url: str, tmp_path: Path) -> None:
    files = {"on_commit.py": example(ON_COMMIT), "options.py": example(OPTIONS), "limited.py": example(LIMITED)}
    files |= {"locked.py": example(LOCK), "asgi.py": example(ASGI)}
    files["on_commit.py"] = f"from lockwork.contrib.django import lw\n{files['on_commit.py']}"
    files["options.py"] = f"from {TASKS} import task\n{files['options.py']}"
    files["locked.py"] = f"from django.core.cache import cache\n{files['locked.py']}"
    assert Project(tmp_path, own_url, files).run(OTHERS) == [
        "['ship']",
        "['options.ship']",
        "[None, None, None, None, None, None, None, None, None, None, 429]",
        "True",
        "302 /admin/login/?next=/admin/lockwork/",
    ]


TASKS = "django.tasks" if django.VERSION >= (6,) else "django_tasks"
OTHERS = """
import asyncio
from contextlib import suppress
import httpx
from django.core.cache import cache
from django.db import transaction
from django.test import RequestFactory
from lockwork.contrib.django import lw

def jobs():
    return [job.call.task for job in lw.queue("default").peek()]

with suppress(ZeroDivisionError), transaction.atomic("archive"):
    import on_commit
    1 / 0
print(jobs())
lw.queue("default").clear()
import options
print(jobs())
import limited
print([getattr(limited.search(RequestFactory().get("/")), "status_code", None) for _ in range(11)])
with cache.lock("report"):
    print(cache.lock("report").owner() is not None)
import locked

async def get(path):
    import asgi
    async with httpx.AsyncClient(transport=httpx.ASGITransport(asgi.application), base_url="http://shop") as client:
        answer = await client.get(path)
        print(answer.status_code, answer.headers["location"])
    await lw.aclose()

asyncio.run(get("/admin/lockwork/"))
"""
