"""Invoices: a Flask app with a factory, and its jobs.

Run `flask --app invoices run`, and in another terminal `flask --app invoices lockwork worker`.
"""

import os
import sqlite3
import time
from typing import Any

from flask import Blueprint, Flask, abort, current_app, g

from lockwork import Lockwork
from lockwork.contrib.flask import init_app

lw = Lockwork(prefix=os.environ.get("INVOICES_PREFIX", "invoices"))
pages = Blueprint("pages", __name__)


def database() -> sqlite3.Connection:
    """Return the connection of this request or job, which its app context closes."""
    if "database" not in g:
        g.database = sqlite3.connect(current_app.config["DATABASE"], timeout=30)
    connection: sqlite3.Connection = g.database
    return connection


@lw.task(unique="invoice:{number}", unique_until="done")
def send_invoice(number: int) -> None:
    """Send an invoice: a second run, after a worker died, sends it only if the first one did not."""
    with database() as connection:
        time.sleep(2)  # the mail server
        connection.execute("UPDATE invoices SET sent = sent + 1 WHERE number = ? AND sent = 0", [number])


@pages.post("/invoices")
def create() -> tuple[dict[str, Any], int]:
    """Create an invoice, and send it by a job."""
    with database() as connection:
        number = connection.execute("INSERT INTO invoices (sent) VALUES (0)").lastrowid
    assert number is not None
    return {"number": number, "job": send_invoice.enqueue(number).id}, 202


@pages.get("/invoices/<int:number>")
def show(number: int) -> dict[str, Any]:
    """Show how often an invoice was sent."""
    row = database().execute("SELECT sent FROM invoices WHERE number = ?", [number]).fetchone()
    if row is None:
        abort(404)
    return {"number": number, "sent": row[0]}


def create_app() -> Flask:
    """Make the app; `flask --app invoices` calls this."""
    app = Flask(__name__)
    app.config["DATABASE"] = os.environ.get("INVOICES_DATABASE", "invoices.sqlite3")
    init_app(app, lw)
    app.register_blueprint(pages)

    @app.teardown_appcontext
    def close(_error: BaseException | None) -> None:
        if (connection := g.pop("database", None)) is not None:
            connection.close()

    with app.app_context(), database() as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS invoices (number INTEGER PRIMARY KEY, sent INTEGER)")
    return app
