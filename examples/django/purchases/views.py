"""Create an order, and show what became of it."""

from django.db import transaction
from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from lockwork.contrib.django import limited

from .models import Order
from .tasks import charge


@csrf_exempt
@require_POST
@limited("60/m")
@transaction.atomic
def create(request: HttpRequest) -> HttpResponseBase:
    """Create an order; its job is enqueued with the commit, and only then."""
    order = Order.objects.create(email=request.POST["email"])
    job = charge.enqueue(order.pk)
    return JsonResponse({"order": order.pk, "job": job.id}, status=202)


def show(_request: HttpRequest, number: int) -> HttpResponseBase:
    """Show the state of an order."""
    order = get_object_or_404(Order, pk=number)
    return JsonResponse({"state": order.state, "charges": order.charges})
