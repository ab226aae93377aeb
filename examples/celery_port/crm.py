"""Another program on the same server, which after.py knows by the name of its task: lockwork worker crm."""

from lockwork import Lockwork

lw = Lockwork(prefix="parcels")


@lw.task(name="crm.note", queue="crm")
def note(parcel: str, *, kind: str) -> str:
    """Write a note about a parcel."""
    return f"{parcel} is {kind}"
