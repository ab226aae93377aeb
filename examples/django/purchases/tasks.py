"""The jobs of the shop; every worker of the project finds this module."""

import time
from typing import TYPE_CHECKING

import django
from django.db import transaction

from lockwork.contrib.django import lw

from .models import Order

if TYPE_CHECKING or django.VERSION >= (6,):
    from django.tasks import task
else:
    from django_tasks import task


@lw.task(key="order:{number}")
def charge(number: int) -> None:
    """Charge an order once, even if the job runs again after its worker died."""
    time.sleep(1)  # the bank takes its time
    with transaction.atomic():
        order = Order.objects.select_for_update().get(pk=number)
        if order.state == "new":
            order.state = "charged"
            order.charges += 1
            order.save()
            confirm.enqueue(number)  # when the charge is committed


@lw.task
async def confirm(number: int) -> None:
    """Write the customer a mail."""
    await Order.objects.filter(pk=number).aupdate(state="confirmed")


@task
def invoice(number: int) -> str:
    """Return the text of an invoice; a task of Django, run by the same worker."""
    order = Order.objects.get(pk=number)
    return f"Invoice {number} for {order.email}: {order.charges} charge"
