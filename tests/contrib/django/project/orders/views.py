"""Views with rate limits."""

from django.http import HttpRequest, HttpResponse
from django.utils.decorators import method_decorator
from django.views import View

from lockwork.contrib.django import limited


@limited("2/m")
def plain(request: HttpRequest) -> HttpResponse:
    """Allow two requests a minute from an address."""
    return HttpResponse("plain")


@limited("1/m", key="user")
async def aplain(request: HttpRequest) -> HttpResponse:
    """Allow one request a minute of a user."""
    return HttpResponse("async")


@limited("1/m", key=lambda request: request.headers.get("X-Customer"), name="customers")
def by_customer(request: HttpRequest) -> HttpResponse:
    """Allow one request a minute of a customer, and any without one."""
    return HttpResponse("customer")


@limited("1/h")
@limited("100/h")
def twice(_request: HttpRequest) -> HttpResponse:
    """Have two limits."""
    return HttpResponse("twice")


@method_decorator(limited("1/h"), name="dispatch")
class One(View):
    """A limited view."""

    def get(self, _request: HttpRequest) -> HttpResponse:
        """Answer."""
        return HttpResponse("one")


class Two(One):
    """Another one, with the same method."""


class Three(View):
    """Limited where it is routed."""

    def get(self, _request: HttpRequest) -> HttpResponse:
        """Answer."""
        return HttpResponse("three")


class Four(Three):
    """Another one."""
