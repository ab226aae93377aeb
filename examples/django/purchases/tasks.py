"""The jobs of the shop; every worker of the project finds this module."""

import time

from django.db import transaction

from lockwork.contrib.django import lw

from .models import Order


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
