"""The dashboard for staff, rate limits of views, the cache's locks; the cases are tests of the project."""

from __future__ import annotations

from django_project import DjangoProject


def test_web_cases_of_the_project_pass(project: DjangoProject) -> None:
    assert "\nOK\n" in project.output("test", "orders.web_cases")


def test_link_leads_to_a_separate_dashboard(project: DjangoProject) -> None:
    project.configure({"LOCKWORK": {"dashboard_url": "https://ops.example/lockwork/"}})
    code = """
from django.contrib.admin import site
from django.contrib.auth.models import User
from django.test import RequestFactory
request = RequestFactory().get("/admin/")
request.user = User(is_staff=True, is_active=True, is_superuser=True)
print(site.get_app_list(request)[-1]["app_url"], len(site.get_app_list(request, "auth")))
request.user.is_staff = False
print([app["name"] for app in site.get_app_list(request)])
"""
    said = project.output("shell", "-c", code)
    assert "https://ops.example/lockwork/ 1" in said
    assert "Lockwork" not in said
