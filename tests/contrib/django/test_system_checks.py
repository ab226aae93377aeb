"""`manage.py check` reports settings that hurt jobs, without a call to the server."""

from __future__ import annotations

import pytest

from django_project import DjangoProject

NO_SERVER = "redis://127.0.0.1:1"
REQUESTS = {"default": {"ENGINE": "django.db.backends.sqlite3", "ATOMIC_REQUESTS": True}}
POOL = {"default": {"ENGINE": "django.db.backends.postgresql", "CONN_MAX_AGE": 60, "OPTIONS": {"pool": True}}}


@pytest.mark.parametrize(
    ("settings", "status", "found"),
    [
        ({}, 0, []),
        ({"LOCKWORK": {"dead_tll": 5}}, 1, ["(lockwork.E001)", "there is no key 'dead_tll': did you mean 'dead_ttl'?"]),
        ({"LOCKWORK": {"result_ttl": "5s"}}, 1, ["(lockwork.E001)", "result_ttl must be at least 60 s"]),
        ({"LOCKWORK": {"on_commit": "archiv"}}, 1, ["(lockwork.E001)", "did you mean 'archive'?"]),
        ({"LOCKWORK": {"on_commit": 1}}, 1, ["on_commit must be True, False or the alias of a database, not 1"]),
        ({"LOCKWORK": ["url"]}, 1, ["(lockwork.E001)", "it must be a dict, not ['url']"]),
        ({"CONN_MAX_AGE": 60}, 0, ["(lockwork.W001)", "Set CONN_MAX_AGE of DATABASES['default'] to 0, at least"]),
        ({"DATABASES": REQUESTS}, 0, ["(lockwork.W002)", 'Set "on_commit" in LOCKWORK']),
        ({"DATABASES": REQUESTS, "LOCKWORK": {"on_commit": False}}, 0, []),
    ],
)
def test_check_reports_wrong_settings(
    project: DjangoProject, settings: dict[str, object], status: int, found: list[str]
) -> None:
    project.configure(settings)
    said = project.output("check", status=status, url=NO_SERVER)
    assert [text for text in found if text not in said] == [], said
    assert found or "no issues" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("settings", "variable", "warns"),
    [({}, "", True), ({}, "off", True), ({}, "on", False), ({"LOCKWORK": {"url": NO_SERVER}}, "", False)],
)
def test_deployment_check_reports_a_missing_server(
    project: DjangoProject, settings: dict[str, object], variable: str, warns: bool
) -> None:
    project.configure(settings, LOCKWORK_EMBEDDED=variable)
    assert ("(lockwork.W004)" in project.output("check", "--deploy", url=None)) == warns
    assert "lockwork.W004" not in project.output("check", url=None)
    assert "lockwork.W004" not in project.output("check", "--deploy", url=NO_SERVER)
