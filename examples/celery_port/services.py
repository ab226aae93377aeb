"""What both versions call: stand-ins for a map, carriers, a printer and a bank."""

import time

CARRIERS = {"swift": 2.0, "snail": 1.0, "drone": 5.0}
"""Price per kilogram."""


def find_place(address: str, attempt: int) -> tuple[float, float]:
    """Return the coordinates of an address; the map is busy when it is asked for a far one for the first time."""
    if address.startswith("far") and attempt == 1:
        raise ConnectionError("the map is busy")
    return float(len(address)), 1.0


def price(carrier: str, weight: float) -> float:
    """Return the price of one carrier."""
    return CARRIERS[carrier] * weight


def charge(customer: str, amount: float) -> str:
    """Charge a customer, and return the number of the payment."""
    if customer == "broke":
        raise LookupError("no money")
    return f"payment of {amount:.2f} by {customer}"


def count_parcels(day: int) -> int:
    """Count the parcels of a day, which takes a moment."""
    time.sleep(0.05)
    return day % 7
