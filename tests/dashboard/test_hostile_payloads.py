"""200 hostile texts wherever a job, a worker or a name can carry one: no script runs, no markup is born."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from urllib.parse import quote

import msgspec
import pytest
from playwright.sync_api import Browser, Page, expect

from dashboard.browsing import CHROMIUM, aside, opened, serving
from dashboard.payloads import PAYLOADS
from lockwork import Lockwork
from lockwork.ids import new_ids
from lockwork.protocol.announcements import announcements
from lockwork.protocol.flows import flows
from lockwork.protocol.flows.flows import FlowJob
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, leases
from lockwork.protocol.queue import job_control as control
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Leased, Outcome
from lockwork.protocol.queue.record_header import head
from lockwork.workers import AnnouncedTask, App, RunningJob, Worker

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")
KEYS = QueueKeys("lw", "hostile")
SESSION = "host/1/<img src=x onerror=alert(1)>"
WINDOW_MS = 600_000
ELEMENTS = {
    "A", "B", "BUTTON", "CIRCLE", "CODE", "DD", "DETAILS", "DIV", "DL", "DT", "FORM", "H1", "H2", "I", "INPUT", "LABEL",
    "LI", "NAV", "OPTION", "P", "PATH", "POLYLINE", "PRE", "PROGRESS", "RECT", "SECTION", "SELECT", "SMALL", "SPAN",
    "SUMMARY", "SVG", "TABLE", "TBODY", "TD", "TEXT", "TH", "THEAD", "TIME", "TITLE", "TR", "UL", "USE", "CANVAS",
    "DEFS", "MARKER", "G",
}  # fmt: skip
"""All that our own templates have."""
HOSTILE = (0, 17, 58)
"""Places of payloads that are sent in addresses: a script, an event handler, and a quote."""
GROUPS = [PAYLOADS[start : start + 20] for start in range(0, len(PAYLOADS), 20)]


def name(text: str, at: int = 0) -> str:
    """The text as a name that Lockwork takes."""
    return re.sub(r"[^!-~]|[{}/,;]", "!", text)[:150] + str(at)


def record(task: str, args: list[str], tags: list[str], key: str = "") -> bytes:
    body = [task, args, {"more": args[0]}, {"tags": tags}]
    return head(1, 4, key) + msgspec.json.encode(body)


def error(text: str) -> bytes:
    return msgspec.json.encode({"type": text, "message": text, "traceback": f'  File "{text}", line 1\n{text}'})


def records(*, keyed: bool) -> list[bytes]:
    """Return a record for each payload, and a record for each twenty payloads."""
    single = [record(each, [each], [each], name(each, at) if keyed else "") for at, each in enumerate(PAYLOADS)]
    return single + [record(group[0], group, group) for group in GROUPS]


class Attacker:
    """A client that can write to the server like workers and producers."""

    def __init__(self, lw: Lockwork) -> None:
        self.run = lw.runtime.run
        self.lw = lw
        self.flow = ""
        self.shown: list[str] = []
        """Ids of the jobs that carry twenty payloads."""

    def attack(self) -> None:
        """Write them everywhere."""
        self.run(leases.beat(KEYS, {SESSION: True}, WINDOW_MS, 60))
        texts = [*PAYLOADS, *("\n".join(group) for group in GROUPS)]
        for kind in ("d", "s", "r", "c"):
            some = texts if kind in "ds" else texts[len(PAYLOADS) :]
            held = self.lease(single=kind in "ds")
            ends = [self.end(job, kind, text) for job, text in zip(held, some, strict=True)]
            assert all(self.run(leases.settle(KEYS, SESSION, ends, WINDOW_MS)))
        for job, text in zip(self.lease(), texts, strict=True):  # running jobs, with progress
            assert self.run(control.note(KEYS, SESSION, job, "", msgspec.json.encode(text), 8192)) == 1
            assert self.run(control.note(KEYS, SESSION, job, name(text), msgspec.json.encode(text), 8192)) == 1
        self.push(keyed=True)
        for at, each in enumerate(PAYLOADS[:60]):
            self.run(enqueue.push(QueueKeys("lw", name(each, at)), [NewJob(new_ids(1)[0], record(each, [each], []))]))
        self.flow = new_ids(1)[0]
        jobs = [FlowJob(record(each, [each], [each]), [at] if at else []) for at, each in enumerate(PAYLOADS)]
        assert self.run(flows.push(KEYS, self.flow, jobs, 1))
        for at, each in enumerate(PAYLOADS[:60]):
            self.lw.limiter(name(each, at), "5/h").acquire()
            self.lw.semaphore(name(each, at), 4, lease=600).acquire()
            self.lw.lock(name(each, at), lease=600, tags=[f"t{at}"]).acquire()
            self.lw.stock(name(each, at), 5, queue="hostile").reserve(name(each))
        self.announce()

    def push(self, *, keyed: bool = False, single: bool = True) -> list[str]:
        written = records(keyed=keyed)[0 if single else len(PAYLOADS) :]
        jobs = [NewJob(id, each) for id, each in zip(new_ids(len(written)), written, strict=True)]
        for start in range(0, len(jobs), 100):
            self.run(enqueue.push(KEYS, jobs[start : start + 100]))
        ids = [job.id for job in jobs]
        self.shown += ids[-len(GROUPS) :]
        return ids

    def lease(self, *, single: bool = True) -> list[Leased]:
        ids = self.push(single=single)
        held: dict[str, Leased] = {}
        while len(held) < len(ids):
            held |= {job.id: job for job in self.run(leases.reserve(KEYS, SESSION, 500, new_ids(1)[0], "")).jobs}
        return [held[id] for id in ids]

    def end(self, job: Leased, kind: str, text: str) -> Outcome:
        value = msgspec.json.encode(text) if kind == "s" else error(text) if kind in "dr" else b""
        return Outcome(job.id, job.token, kind, value, 500_000, name(text))  # type: ignore[arg-type]

    def announce(self) -> None:
        now = datetime.now(UTC)
        for at, each in enumerate(PAYLOADS):
            job = RunningJob(each, each, each, now, 1)
            made = Worker(
                name(each, at), each, at, each, each, [each, "hostile"], 1, 10, now, 15.0, busy=1, slots=2, jobs=[job]
            )
            app = App(name(each, at), [AnnouncedTask(each, name(each, at), "thread", None, 3)], {}, [each], each)
            self.run(announcements.put("lw", announcements.WORKERS, made.name, msgspec.msgpack.encode(made)))
            self.run(announcements.put("lw", announcements.APPS, app.name, msgspec.msgpack.encode(app)))


@pytest.fixture
def attacked(own_url: str) -> Iterator[tuple[str, Attacker]]:
    """A dashboard of a server with hostile texts everywhere."""
    with Lockwork(own_url) as lw:
        attacker = Attacker(lw)
        aside(attacker.attack)
        with serving(own_url, allow_actions=True, refresh=1) as address:
            yield address, attacker


_CHECKS = """() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const links = [["a", "href"], ["use", "href"], ["form", "action"]]
    .flatMap(([tag, name]) => all(tag).map((one) => one.getAttribute(name)));
  return {
    born: [...new Set(all("#content *").map((one) => one.tagName.toUpperCase()))],
    handlers: all("*").flatMap((one) => one.getAttributeNames()).filter((name) => /^on/i.test(name)),
    links: links.filter((link) => link && (!"/#".includes(link[0]) || link[1] === "/")),
    ran: [window.stolen, window.broken].filter(Boolean),
    scripts: all("script:not([nonce])").length,
  };
}"""
_NOTED = """
  addEventListener("securitypolicyviolation", (event) => { window.broken = event.violatedDirective; });
  addEventListener("lockwork:shown", () => { document.documentElement.dataset.updated = ""; });
"""


def check(page: Page, path: str) -> None:
    """Fail if a text became an element, an attribute or a link of another place, or ran."""
    found = page.evaluate(_CHECKS)
    assert set(found.pop("born")) <= ELEMENTS, path
    assert found == {"handlers": [], "links": [], "ran": [], "scripts": 0}, path


def look(page: Page, path: str, status: int = 200) -> None:
    """Open a page and check it."""
    answer = page.goto(path)
    assert answer is not None
    assert answer.status == status, (path, answer.status)
    check(page, path)


@pytest.mark.timeout(300)
def test_hostile_text_never_becomes_markup(browser: Browser, attacked: tuple[str, Attacker]) -> None:
    address, attacker = attacked
    with opened(browser, address, reduced_motion="reduce") as page:
        page.add_init_script(_NOTED)
        for path in ("/", "/queues", "/tasks?sort=total", "/dead", "/dead?queue=hostile&task=alert", "/workers",
                     "/flows", f"/flow/{attacker.flow}?queue=hostile", f"/job/{attacker.flow}.00003?queue=hostile",
                     "/limiters", "/stocks", "/locks", "/schedules"):  # fmt: skip
            look(page, path)
            expect(page.locator("html[data-updated]")).to_be_attached(timeout=20_000)
            check(page, path)
        path = "/jobs"
        for _ in range(40):
            look(page, path)
            following = page.locator("a[rel=next]")
            if not following.count():
                break
            path = following.get_attribute("href") or ""
        else:
            raise AssertionError("the list of jobs never ends")
        for id in (
            attacker.shown[: 2 * len(GROUPS)] + attacker.shown[4 * len(GROUPS) : 5 * len(GROUPS)]
        ):  # dead, done, running
            look(page, f"/job/{id}")
        for at in HOSTILE:
            hostile = PAYLOADS[at]
            look(page, f"/queues/{quote(name(hostile, at))}")
            look(page, f"/workers/{quote(name(hostile, at))}")
            for field in ("q", "arg", "error"):  # rows that match
                look(page, f"/jobs?{field}={quote(hostile)}")
            look(page, f"/limiters?name={quote(name(hostile))}")
        hostile = "".join(PAYLOADS[at] for at in HOSTILE)
        fields = "&".join(f"{field}={quote(hostile)}" for field in ("task", "tag", "since", "key"))
        look(page, f"/jobs?{fields}")
        look(page, f"/jobs?queue={quote(hostile)}")
        look(page, f"/jobs?after={quote(hostile)}", 400)
        look(page, f"/jobs/change?do=cancel&queue=hostile&arg={quote(hostile)}")
        look(page, f"/jobs/change?do={quote(hostile)}&n={quote(hostile)}")
        look(page, f"/flows?queue={quote(hostile)}&state={quote(hostile)}&after={quote(hostile)}")
        look(page, f"/flow/{attacker.flow}?queue=hostile&box={quote(hostile)}")
        look(page, f"/dead?queue={quote(hostile)}&task={quote(hostile)}&text={quote(hostile)}")
