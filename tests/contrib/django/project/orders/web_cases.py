"""Tests of the project: the dashboard for staff, rate limits of views, and the cache's locks."""

import asyncio
from typing import Any

import httpx
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import AsyncClient, Client, TestCase

from config.asgi import application
from lockwork import LockTimeout
from lockwork.contrib.django import lw


class StaffDashboard(TestCase):
    """`with_dashboard`."""

    @classmethod
    def setUpTestData(cls) -> None:
        User.objects.create_user("ada", password="ada", is_staff=True)
        User.objects.create_user("bob", password="bob")

    def get(self, path: str, name: str = "", **options: Any) -> httpx.Response:
        """Request a page as a user."""
        if name:
            assert self.client.login(username=name, password=name)
        cookies = {each.key: each.value for each in self.client.cookies.values()}

        async def request() -> httpx.Response:
            transport = httpx.ASGITransport(app=application, **options)
            async with httpx.AsyncClient(
                transport=transport, base_url="http://shop.example", cookies=cookies
            ) as client:
                try:
                    return await client.get(path)
                finally:
                    await lw.aclose()

        from asgiref.sync import async_to_sync

        return async_to_sync(request)()

    def test_staff_sees_the_dashboard_below_its_path(self) -> None:
        page = self.get("/admin/lockwork/", "ada")
        assert page.status_code == 200, page.text
        assert 'href="/admin/lockwork/queues"' in page.text
        assert self.get("/proxied/admin/lockwork/queues", "ada", root_path="/proxied").status_code == 200

    def test_others_come_to_the_login_or_are_refused(self) -> None:
        page = self.get("/admin/lockwork/queues")
        assert page.status_code == 302
        assert page.headers["location"] == "/admin/login/?next=/admin/lockwork/queues"
        page = self.get("/admin/lockwork/", "bob")
        assert (page.status_code, page.text) == (403, "The dashboard is for staff.\n")

    def test_end_of_the_session_ends_the_access(self) -> None:
        assert self.get("/admin/lockwork/", "ada").status_code == 200
        User.objects.filter(username="ada").update(is_staff=False)
        assert self.get("/admin/lockwork/").status_code == 403
        User.objects.filter(username="ada").update(is_active=False)
        assert self.get("/admin/lockwork/").status_code == 302

    def test_all_other_paths_are_those_of_django(self) -> None:
        assert self.get("/admin/lockworks").status_code == 302  # the admin adds a slash, or asks for a login
        assert self.get("/customer").text == "customer"

    def test_admin_links_to_the_dashboard_for_staff(self) -> None:
        assert 'href="/admin/lockwork/"' not in self.get("/admin/login/").text
        assert self.get("/admin/", "ada").text.count('href="/admin/lockwork/"') > 0


class Limits(TestCase):
    """`limited`."""

    def setUp(self) -> None:
        self.client = Client(REMOTE_ADDR=f"10.0.0.{id(self) % 200}")

    def test_view_answers_429_beyond_the_rate(self) -> None:
        address = self.client.defaults["REMOTE_ADDR"]
        assert [self.client.get("/plain").status_code for _ in range(3)] == [200, 200, 429]
        refused = self.client.get("/plain")
        assert 1 <= int(refused.headers["Retry-After"]) <= 30
        assert Client(REMOTE_ADDR=f"{address}0").get("/plain").status_code == 200

    def test_key_is_a_function_of_the_request(self) -> None:
        one, other = {"X-Customer": "1"}, {"X-Customer": "2"}
        assert [self.client.get("/customer", headers=each).status_code for each in (one, one, other)] == [200, 429, 200]
        assert [self.client.get("/customer").status_code for _ in range(3)] == [200] * 3

    def test_view_may_have_several_limits(self) -> None:
        assert [self.client.get("/twice").status_code for _ in range(2)] == [200, 429]

    def test_each_class_based_view_has_a_limit_of_its_own(self) -> None:
        paths = ["/one", "/two", "/three", "/four"]
        assert [self.client.get(path).status_code for path in paths] == [200] * 4
        assert [self.client.get(path).status_code for path in paths] == [429] * 4

    async def test_async_view_is_limited_by_user(self) -> None:
        client = AsyncClient()
        user = await User.objects.acreate(username="ada")
        found = [(await client.get("/async")).status_code for _ in range(2)]
        await client.aforce_login(user)
        found += [(await client.get("/async")).status_code for _ in range(2)]
        await lw.aclose()
        assert found == [200, 429, 200, 429]


class CacheLocks(TestCase):
    """`cache.lock`."""

    def test_lock_excludes_others_and_ends_after_its_timeout(self) -> None:
        held: Any = cache
        cache.set("report", 1)
        with held.lock("report", timeout=60) as grant:
            assert grant.name == "shop:1:report"
            assert 59 < grant.remaining <= 60

            async def wait() -> None:
                try:
                    async with held.lock("report", blocking_timeout=0):
                        raise AssertionError
                except LockTimeout:
                    pass
                finally:
                    await lw.aclose()

            asyncio.run(wait())
        assert cache.get("report") == 1
