"""Views with rate limits."""

from django.http import HttpRequest, HttpResponse

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
