"""A Flask app with a factory, and its tasks, for the tests."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from flask import Flask, current_app, g

from lockwork import Depends, JobFailed, Lockwork
from lockwork.contrib.flask import init_app
from lockwork.hooks import Succeeded
from lockwork.types import INJECTED

lw = Lockwork(os.environ.get("FLASK_TEST_URL"), prefix="flasked")


def greeting() -> Iterator[str]:
    yield f"hello from {current_app.config['GREETING']}"


@lw.task
def in_thread(word: Annotated[str, Depends(greeting)] = INJECTED) -> str:
    g.resource = "thread"
    return f"{word} in a thread"


@lw.task
async def on_loop() -> str:
    g.resource = "loop"
    return f"{current_app.config['GREETING']} on the loop"


@lw.task(executor="process")
def in_process() -> str:
    g.resource = "process"
    return f"{current_app.config['GREETING']} in a process"


@lw.task(retries=0)
def fail() -> None:
    g.resource = "failed"
    raise ValueError("no mail server")


@lw.hooks.success
def note(event: Succeeded) -> None:
    write(f"hook of {event.task} in {current_app.name}")


def write(line: str) -> None:
    with Path(os.environ["FLASK_TEST_LOG"]).open("a") as file:
        file.write(f"{line}\n")


def create_app(name: str = "flasked") -> Flask:
    write(f"made in {name}")
    app = Flask(name)
    app.config["GREETING"] = name
    init_app(app, lw)

    @app.teardown_appcontext
    def close(error: BaseException | None) -> None:
        if (resource := g.pop("resource", None)) is not None:
            write(f"closed {resource}" if error is None else f"closed {resource} after {type(error).__name__}")

    @app.get("/start/<task>")
    def start(task: str) -> dict[str, Any]:
        tasks: dict[str, Any] = {"in_thread": in_thread, "on_loop": on_loop, "in_process": in_process, "fail": fail}
        try:
            return {"result": tasks[task].enqueue().result(timeout=60)}
        except JobFailed as error:
            return {"error": str(error)}

    return app
