"""Runs the page about enqueuing together with other writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.snippets import Reader, steps
from lockwork import Lockwork

PAGE = Path(__file__).parents[2] / "docs" / "together.md"


def test_page_about_combined_enqueues_runs_as_printed(
    lw: Lockwork, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alchemy = pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed")
    orm = pytest.importorskip("sqlalchemy.orm")
    engine = alchemy.create_engine("sqlite://", poolclass=alchemy.pool.StaticPool)
    base = orm.declarative_base()

    class Order(base):  # type: ignore[misc, valid-type]
        __tablename__ = "orders"
        id = alchemy.Column(alchemy.Integer, primary_key=True)

    class Outbox(base):  # type: ignore[misc, valid-type]
        __tablename__ = "outbox"
        id = alchemy.Column(alchemy.Integer, primary_key=True)
        user_id = alchemy.Column(alchemy.Integer)

    @lw.task
    def send(user: int) -> None: ...

    base.metadata.create_all(engine)
    packed: list[int] = []
    names = {"lw": lw, "engine": engine, "Order": Order, "Session": orm.Session, "text": alchemy.text, "send": send}
    reader = Reader(tmp_path, lambda _: None)
    reader.names.update(names, pack=packed.append)
    for step in steps(PAGE):
        reader.run(step)

    assert packed == [42]
    assert lw.queue("mail").status().ready == 1
    assert "are enqueued, but a failover might forget them" in capsys.readouterr().out
    with orm.Session(engine) as session, session.begin():
        session.add_all([Outbox(user_id=1), Outbox(user_id=2)])
    before = lw.queue().status().ready
    reader.names["carry"]()
    reader.names["carry"]()
    assert lw.queue().status().ready == before + 2
    engine.dispose()
