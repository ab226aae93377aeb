"""Create an order, and show what became of it."""

from typing import TYPE_CHECKING

import django
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponseBase, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from lockwork.contrib.django import limited

from .models import Order
from .tasks import charge, invoice

if TYPE_CHECKING or django.VERSION >= (6,):
    from django.tasks.exceptions import TaskResultDoesNotExist, TaskResultMismatch
else:
    from django_tasks.exceptions import TaskResultDoesNotExist, TaskResultMismatch


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


@csrf_exempt
@require_POST
def write_invoice(_request: HttpRequest, number: int) -> HttpResponseBase:
    """Enqueue a task of Django; its result is kept for one day."""
    order = get_object_or_404(Order, pk=number)
    result = invoice.enqueue(order.pk)
    return JsonResponse({"invoice": result.id}, status=202)


def show_invoice(_request: HttpRequest, id: str) -> HttpResponseBase:
    """Show the state of the task, and its return value when it has finished."""
    try:
        result = invoice.get_result(id)
    except (TaskResultDoesNotExist, TaskResultMismatch):
        raise Http404 from None
    text = result.return_value if result.status == "SUCCESSFUL" else None
    return JsonResponse({"status": result.status, "text": text, "attempts": result.attempts})
