"""The shop: sells phones over HTTP. It never waits for the ledger, and it never sells a phone that is not there."""

from __future__ import annotations

from dataclasses import asdict

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import ledger
from lockwork import LimitReached, ReservationEnded, SoldOut
from tasks import HOLD, order_paid, phones, place_order


async def buy(request: Request) -> Response:
    """Reserve a phone and enqueue the order: both or neither. Whoever presses twice gets the same reservation."""
    buyer = (await request.json())["buyer"]
    try:
        held = await phones.areserve(buyer, hold=HOLD, key=buyer, enqueue=place_order.call(buyer))
    except (SoldOut, LimitReached) as refusal:
        return JSONResponse({"error": str(refusal)}, 409)
    answer = {"reservation": held.id, "state": held.state, "seconds_to_pay": held.expires_in}
    return JSONResponse(answer, 202 if held.created else 200)


async def pay(request: Request) -> Response:
    """Turn the reservation into a sale and enqueue its entry: both or neither, however often it is pressed."""
    reservation = (await request.json())["reservation"]
    try:
        await phones.aconfirm(reservation, enqueue=order_paid.call(reservation))
    except ReservationEnded as ended:
        return JSONResponse({"error": str(ended)}, 410)
    return JSONResponse({"reservation": reservation, "state": "confirmed"})


def order(request: Request) -> Response:
    """What the ledger says of an order; at first it says nothing, because workers write it."""
    events = ledger.events(request.path_params["reservation"])
    return JSONResponse({"events": events})


async def stock(_: Request) -> Response:
    """Count the phones by place."""
    return JSONResponse(asdict(await phones.ainspect()))


app = Starlette(
    routes=[
        Route("/buy", buy, methods=["POST"]),
        Route("/pay", pay, methods=["POST"]),
        Route("/order/{reservation}", order),
        Route("/stock", stock),
    ]
)
