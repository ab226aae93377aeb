"""`lockwork flows`."""

from __future__ import annotations

from cli.conftest import Office
from processes import until


def test_flows_are_listed(office: Office) -> None:
    add = office.app.add
    flow = office.lw.flow()
    flow.add(add.call(flow.add(add.call(1)), flow.add(add.call(2))))
    run = flow.enqueue()
    run.result(30)
    found = {each["id"]: each for each in office.json("flows", "-q", "sums")["flows"]}[run.id]
    assert (found["queue"], found["state"], found["jobs"], found["succeeded"]) == ("sums", "succeeded", 3, 3)
    assert run.id in office.run("flows").output


def test_flow_is_shown_as_a_tree_and_cancelled(office: Office) -> None:
    rest = office.app.rest
    flow = office.lw.flow()
    first = flow.add(rest.call())
    flow.add(rest.call(), after=[first])
    run = flow.enqueue()
    until(lambda: run.job(1).state() == "running", "it runs")
    shown = office.run("flows", run.id)
    assert shown.exit_code == 0, shown.exception
    assert shown.output == (
        f"flow   {run.id}\nqueue  slow\nstate  running\njobs   2\n1 rest  running\n└── 2 rest  blocked\n"
    )
    assert office.json("flows", run.id)["graph"][0]["children"] == [2]
    assert office.run("flows", "cancel", run.id).exit_code == 0
    until(lambda: run.inspect().state == "cancelled", "it is cancelled")
    again = office.run("flows", "cancel", run.id)
    assert (again.exit_code, str(again.exception)) == (1, f"flow {run.id} has ended: it cannot be cancelled")


def test_jobs_after_a_failure_are_shown_with_their_causes(office: Office) -> None:
    add = office.app.add
    flow = office.lw.flow()
    first, second = flow.add(add.call(1)), flow.add(add.call(2))
    flow.add(add.call(3), after=first, after_failure=second)
    run = flow.enqueue()
    assert run.result(30) == [1, 2]
    assert office.run("flows", run.id).output.splitlines()[3:] == [
        "jobs   3, 2 succeeded, 1 skipped",
        "1 add  succeeded",
        "2 add  succeeded",
        "└── 3 add  skipped  also after 1  after a failure of 2",
    ]
    document = office.json("flows", run.id)
    assert document["skipped"] == 1
    assert [each["after_failure"] for each in document["graph"]] == [[], [3], []]
    shown = office.run("job", run.job(3).id, "-q", "sums")
    assert "skipped" in shown.output
    refused = office.run("job", "retry", run.job(3).id, "-q", "sums")
    assert "only a dead, cancelled or expired job can be retried" in str(refused.exception)


def test_mistyped_flow_id_gets_a_suggestion(office: Office) -> None:
    run = office.lw.group([office.app.add.call(1)]).enqueue()
    typed = run.id[:-1] + ("a" if run.id[-1] != "a" else "b")
    assert str(office.run("flows", typed).exception) == f"no flow {typed} exists: did you mean {run.id}?"
    assert str(office.run("flows", "zzz").exception) == "no flow zzz exists"
    assert "no queue sumz exists: did you mean sums?" in str(office.run("flows", "-q", "sumz").exception)


def test_flow_of_many_jobs_is_cut(office: Office) -> None:
    add = office.app.add
    run = office.lw.group([add.call(number) for number in range(203)]).enqueue()
    assert office.run("flows", run.id).output.endswith("and 3 more jobs\n")


def test_jobs_of_other_queues_are_shown_with_their_queue(office: Office) -> None:
    flow = office.lw.flow()
    first = flow.add(office.app.add.call(1))
    flow.add(office.app.rest.options(delay="1h").call(), after=[first])
    run = flow.enqueue()
    until(lambda: run.job(2).state() == "scheduled", "it waits for its time")
    for words in ([run.id], [run.id, "-q", "slow"]):
        shown = office.run("flows", *words)
        assert f"flow   {run.id}\nqueue  sums\n" in shown.output, shown.exception
        assert shown.output.endswith("1 add  succeeded\n└── 2 rest  scheduled  in slow\n")
    assert [each["queue"] for each in office.json("flows", run.id)["graph"]] == [None, "slow"]
    assert "2 rest  scheduled  in slow  <- this job" in office.run("job", run.job(2).id).output
    assert office.run("flows", "cancel", run.id, "-q", "slow").exit_code == 0
    until(lambda: run.job(2).state() == "cancelled", "it is cancelled")
