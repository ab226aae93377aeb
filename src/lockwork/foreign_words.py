"""The words of other libraries, and what to write instead; for errors about unknown names."""

from __future__ import annotations

_ENQUEUE, _CALL = "use {name}.enqueue(...), or await {name}.aenqueue(...)", "use {name}.call(...)"
_LATER = 'use {name}.options(delay="10m").enqueue(...)'
_SIGNATURE = ("s", "si", "subtask", "message", "kicker")
TASK_METHODS = {
    **dict.fromkeys(("delay", "send", "kiq", "defer", "defer_async", "perform_async", "dispatch", "apply"), _ENQUEUE),
    **dict.fromkeys(("apply_async", "send_with_options", "perform_in", "schedule", "configure"), _LATER),
    **dict.fromkeys(_SIGNATURE, _CALL),
    **dict.fromkeys(("chunks", "batch_defer", "perform_bulk"), "use {name}.enqueue_many([(...), (...)])"),
    "starmap": "use lw.gather(...) of {name}.enqueue_many([(...), (...)])",
    "AsyncResult": "use {name}.job(id)",
    **dict.fromkeys(("request", "retry"), "inside the job, use lockwork.current_job()"),
    "update_state": "inside the job, use lockwork.current_job().progress(value)",
    **dict.fromkeys(("fn", "func", "original_func"), "use {name}.function"),
}
"""Names that tasks of other libraries have; `{name}` is the task."""

JOB_METHODS = {
    **dict.fromkeys(("get", "wait", "wait_result", "return_value", "get_result", "fetch"), "use result(timeout)"),
    **dict.fromkeys(("status", "get_status", "ready", "is_ready"), "use state()"),
    **dict.fromkeys(("successful", "is_finished"), 'use state() == "succeeded"'),
    **dict.fromkeys(("failed", "is_failed", "failure"), 'use state() == "dead"'),
    **dict.fromkeys(("revoke", "abort", "stop", "terminate"), "use cancel()"),
    **dict.fromkeys(("traceback", "exc_info", "latest_result"), "use error()"),
    **dict.fromkeys(("info", "meta", "get_meta"), "use progress(), or inspect()"),
    **dict.fromkeys(("forget", "remove"), "use delete()"),
    "requeue": "use retry()",
    "refresh": "use inspect(), which reads the job",
    **dict.fromkeys(("task_id", "job_id", "jid", "message_id"), "use id"),
    **dict.fromkeys(("then", "add_done_callback"), "use task.options(then=receipt).enqueue(...)"),
    "chain": "use a flow: see docs/flows.md",
}
"""Names that jobs and results of other libraries have."""

_BY_NAME = 'use lw.remote_task(name).enqueue(...); from a shell, lockwork enqueue NAME --args "[1]"'
_TASKS = "use @lw.task"
_CRON = 'use @lw.task(cron="0 9 * * *", tz=...) or lw.schedule(task.call(...), name=..., every="10m")'
_WORKER = "use lockwork worker MODULE:OBJECT, or lw.worker().run()"
APP_METHODS = {
    **dict.fromkeys(("send_task", "enqueue_job", "configure_task"), _BY_NAME),
    **dict.fromkeys(
        ("enqueue", "enqueue_call", "enqueue_many", "delay", "send"), "call the task's method: task.enqueue(1)"
    ),
    **dict.fromkeys(("actor", "job_task", "shared_task"), _TASKS),
    **dict.fromkeys(("AsyncResult", "fetch_job", "get_job", "result"), "use lw.job(id)"),
    **dict.fromkeys(("GroupResult", "ResultSet", "as_completed"), "use lw.gather(jobs) or lw.completed(jobs)"),
    **dict.fromkeys(("periodic_task", "add_periodic_task", "crontab", "cron", "every", "beat_schedule"), _CRON),
    **dict.fromkeys(("conf", "config_from_object"), "pass settings to Lockwork(...), and options to @lw.task(...)"),
    "autodiscover_tasks": "use lockwork worker shop --discover shop",
    **dict.fromkeys(("worker_main", "start", "run_worker", "Worker", "work"), _WORKER),
    "control": "use lw.workers() and lw.worker(name)",
    **dict.fromkeys(("purge", "empty", "flush"), "use lw.queue(name).clear()"),
    **dict.fromkeys(("signature", "subtask"), "use task.call(...)"),
    "map": "use task.map(items)",
    **dict.fromkeys(("wait", "join", "get"), "use lw.gather(jobs)"),
    **dict.fromkeys(("add_middleware",), "use @lw.middleware"),
    **dict.fromkeys(("on_after_configure", "worker_process_init"), "use @lw.lifespan"),
    **dict.fromkeys(("redlock",), "use lw.quorum, or lw.lock"),
}
"""Names that apps, queues and brokers of other libraries have."""

_CRASHES = "jobs are acknowledged when they have ended; max_deliveries=1 runs them at most once"
_CONTEXT = "omit it, and call lockwork.current_job() inside the task"
TASK_OPTIONS = {
    "bind": f"{_CONTEXT}, which has no parameter self",
    **dict.fromkeys(("context", "pass_context", "takes_context"), _CONTEXT),
    **dict.fromkeys(("acks_late", "reject_on_worker_lost", "acks_on_failure_or_timeout", "ack_type"), _CRASHES),
    "rate_limit": 'use rate="10/s", for all workers together, or lw.queue(name).limit(rate="10/s")',
    **dict.fromkeys(("autoretry_for", "retry_for"), "use retry_on"),
    **dict.fromkeys(("dont_autoretry_for", "throws"), "use give_up_on"),
    **dict.fromkeys(("default_retry_delay", "min_backoff", "retry_backoff", "retry_wait"), 'use backoff="2s"'),
    **dict.fromkeys(
        ("max_backoff", "retry_backoff_max", "retry_jitter"), 'use backoff=Exponential("2s", longest="10m")'
    ),
    **dict.fromkeys(
        ("tries", "max_tries"), "use retries, which does not count the first attempt: tries=3 is retries=2"
    ),
    "ignore_result": "use keep_result=False",
    "store_results": "use keep_result=True, the default",
    "track_started": "omit it: job.state() is running while the job runs",
    **dict.fromkeys(("serializer", "compression"), "omit it: arguments travel as JSON; see docs/jobs.md"),
    **dict.fromkeys(("base", "shared", "typing", "broker"), "omit it"),
    **dict.fromkeys(("queue_name", "routing_key", "exchange"), "use queue"),
    "task_name": "use name",
    **dict.fromkeys(("queueing_lock", "uniqueFor", "once"), 'use unique="report:{user_id}"'),
    **dict.fromkeys(
        ("task_id", "job_id", "_job_id", "jobId", "jid", "message_id"), 'use task.options(id="report-{user_id}")'
    ),
    "lock": 'use key="order:{order_id}"',
    "lock_task": "use key, with a constant name",
    **dict.fromkeys(("link", "on_success"), "use task.options(then=receipt)"),
    **dict.fromkeys(("link_error", "on_failure"), "use task.options(on_error=alert), or @lw.hooks.dead"),
    "crontab": "use cron",
}
"""Options that tasks of other libraries have."""

LOCK_OPTIONS = {
    "timeout": 'use lease="10s"; without it, the lock is renewed while this process lives',
    **dict.fromkeys(("ttl", "expire", "expires", "ex", "px"), 'use lease="10s"'),
    "auto_renewal": "omit it: a lock without lease is renewed while this process lives",
    **dict.fromkeys(("blocking_timeout", "acquire_timeout"), 'use wait="5s"'),
    "blocking": "use wait=0 to try once",
    **dict.fromkeys(("sleep", "retry_delay"), "omit it: a release wakes the next waiter, and nothing polls"),
    "thread_local": "omit it: a lock belongs to its thread or asyncio task; lock.export() moves it",
    **dict.fromkeys(("raise_on_release_error", "strict"), "omit it"),
    **dict.fromkeys(("id", "token"), "omit it: use grant.fence"),
}
"""Options that locks of other libraries have."""

_PROCESSES = 'a worker needs no pool: use -c for jobs at once, -p for processes, and executor="process" of a task'
_TASK_RETRIES = "the task sets it: @lw.task(retries=2), without the first attempt"
_NO_POLL = "omit it: nothing polls; a waiting worker is woken by each job"
_NO_BEAT = "omit it: every worker runs the schedules of its app"
_OMIT = "omit it"
WORKER_OPTIONS = {
    **dict.fromkeys(("--tries", "--max-tries"), _TASK_RETRIES),
    **dict.fromkeys(("--sleep", "--rest", "--interval", "--poll-interval", "--fetch-job-wait"), _NO_POLL),
    **dict.fromkeys(("--stop-when-empty",), "use --burst"),
    **dict.fromkeys(("--pool", "-P", "--executor", "--worker-class"), _PROCESSES),
    **dict.fromkeys(("--autoscale", "--max-workers", "--num-workers", "--workers"), "use -p, the number of processes"),
    **dict.fromkeys(("--threads", "--max-threads"), "use -c, the number of jobs at once in each process"),
    **dict.fromkeys(("--beat", "-B", "--with-scheduler", "--periodic"), _NO_BEAT),
    **dict.fromkeys(("--loglevel", "-l", "--logging-level"), "use --log-level"),
    "--logfile": "omit it: the worker logs to standard error, or as the app configures logging",
    **dict.fromkeys(("--max-tasks-per-child", "--max-tasks"), "use --max-jobs"),
    **dict.fromkeys(("--max-memory-per-child", "--memory"), "use --max-memory 512MB"),
    **dict.fromkeys(("--time-limit", "--timeout"), 'the task sets it: @lw.task(timeout="1m", hard_timeout="2m")'),
    "--soft-time-limit": 'the task sets it: @lw.task(timeout="1m")',
    **dict.fromkeys(("--backoff", "--delay"), 'the task sets it: @lw.task(backoff="2s")'),
    **dict.fromkeys(("--hostname", "-n", "--name"), "omit it: a worker is named HOST/PID/ID in lockwork workers"),
    **dict.fromkeys(("--app", "-A"), "name the app without it: lockwork worker MODULE:OBJECT"),
    **dict.fromkeys(("--exclude-queues", "-X"), "list the queues to serve: -q a,b"),
    **dict.fromkeys(
        ("--prefetch-multiplier", "-O", "--optimization"), "omit it: a worker fetches jobs for its free slots"
    ),
    **dict.fromkeys(("--without-gossip", "--without-mingle", "--without-heartbeat", "--events", "-E"), _OMIT),
    **dict.fromkeys(("--detach", "--daemon", "--pidfile"), "let a process manager run it: see docs/worker.md"),
    **dict.fromkeys(("--watch", "--autoreload"), "use --reload"),
    "--shutdown-timeout": "use --grace",
    "--force": "omit it: lockwork queue pause NAME stops a queue",
}
"""Options of the workers of other libraries."""

COMMANDS = {
    "beat": "every worker runs the schedules of its app: lockwork worker MODULE:OBJECT",
    "flower": "use lockwork dashboard",
    "rqworker": "use lockwork worker MODULE:OBJECT",
    "purge": "use lockwork queue clear NAME",
    "empty": "use lockwork queue clear NAME",
    "inspect": "use lockwork workers",
    "control": "use lockwork workers quiet, resume or stop",
    "call": "use lockwork enqueue NAME --args '[1]'",
    "result": "use lockwork job ID",
    "shutdown": "use lockwork workers stop --all",
    "restart": "use lockwork workers restart --one-by-one",
    "horizon": "use lockwork dashboard",
    "requeue": "use lockwork dead retry",
    "multi": "use lockwork worker MODULE:OBJECT -p 4",
    **{f"queue:{word}": f"use lockwork {command}" for word, command in {
        "work": "worker MODULE:OBJECT", "listen": "worker MODULE:OBJECT --reload", "failed": "dead",
        "retry": "dead retry", "flush": "dead delete", "forget": "dead delete", "clear": "queue clear NAME",
        "monitor": "queue", "pause": "queue pause NAME", "resume": "queue resume NAME", "restart": "workers stop --all",
    }.items()},
}  # fmt: skip
"""Commands of other libraries."""


def attribute_error(kind: str, name: str, words: dict[str, str], owner: str = "") -> AttributeError:
    """Return the error for an unknown attribute; `owner` is the name of the object in the hint."""
    text = f"{kind!r} object has no attribute {name!r}"
    if name in words:
        text += ": " + words[name].replace("{name}", owner)
    return AttributeError(text)


def unknown_argument(function: str, name: str, words: dict[str, str]) -> TypeError:
    """Return the error for an unknown keyword argument, as Python words it, with a hint."""
    text = f"{function}() got an unexpected keyword argument {name!r}"
    return TypeError(f"{text}: {words[name]}" if name in words else text)
