"""Mutants of the limits of tasks."""

from __future__ import annotations

from simulator.server import Build

_PART = "queue/parts/task_limits"
_GROUPS = "queue/parts/groups"
_NEXT_OF_GROUP = "if passed_over > 1000 then return nil end\n    end\n  end\n\n  -- Take"
_ENDED = "state.running, state.changed = math.max(0, state.running - 1), true"
MUTANTS = (
    Build("leased jobs do not count", ((_PART, "state.running = state.running + 1", ""),)),
    Build("ended jobs count", ((_PART, _ENDED, ""),)),
    Build("jobs of a dead worker count", (("queue/recover", "task_limits.ended(token, id, ended)", "false"),)),
    Build(
        "chosen jobs do not count",
        ((_PART, "state.most - state.running - state.pending", "state.most - state.running"),),
    ),
    Build("a rate without memory", ((_PART, "state.unused_at = math.ceil(", "local _ = math.ceil("),)),
    Build(
        "an alias has no limits",
        (("queue/declare_limits", "string.gmatch(names, '%S+')", "string.gmatch(task, '%S+')"),),
    ),
    Build(
        "held jobs lose their place",
        (
            (
                _GROUPS,
                "hold(level, task, id, next_number(now))",
                "hold(level, task, id, string.format('%016d', 9e15 - next_number(now)))",
            ),
        ),
    ),
    Build(
        "held jobs of groups are forgotten",
        ((_GROUPS, "          at = suspects_turn(group) or next_turn(group)\n", "          record = nil\n"),),
    ),
    Build("no worker is woken for a free place", (("queue/settle", "again = again + #over", ""),)),
    Build(
        "a worker sleeps on when the rate allows a job",
        (("queue/reserve", "retry_within(task_limits.next_ms - now_ms)", ""),),
    ),
    Build("a cancelled job stays held", (("queue/parts/leave", "not task_limits.leave(id, record)", "true"),)),
    Build("a cancelled job of a group stays held", ((_GROUPS, "task and 't ' .. level .. ' ' .. task}", "nil}"),)),
    Build(
        "removed limits hold jobs",
        (("queue/declare_limits", "state.listed = limits ~= '' or held > 0", "state.listed = limits ~= ''"),),
    ),
    Build("changed limits apply to nothing", (("queue/declare_limits", "task_limits.parse(state, limits)", ""),)),
    Build("changed limits wake no worker", (("queue/declare_limits", "if changes > 0 then wake(500) end", ""),)),
    Build("a limited task blocks its group", ((_GROUPS, _NEXT_OF_GROUP, "return nil\n    end\n  end\n\n  -- Take"),)),
    Build(
        "held jobs of lower priority come first",
        (("queue/reserve", "lease_held(level) end", "lease_held(2) lease_held(level) end"),),
    ),
    Build("failures do not count", ((_PART, "task_limits.count_failure(state)\n  end", "local _ = 0\n  end"),)),
    Build("old failures count", ((_PART, "if at > now_ms - state.window and at <= now_ms then", "if true then"),)),
    Build("several jobs probe", ((_PART, "if state.paused > 0 then state.probe = id end", ""),)),
    Build(
        "a pause without an end",
        ((_PART, "if now_ms < state.paused then", "if true then"),),
    ),
    Build(
        "held jobs forget the limits of their group",
        ((_GROUPS, "redis.call('HSET', groups, 'l ' .. group, limits) end -- they", "local _ end -- they"),),
    ),
    Build("held jobs of numbers wait", (("queue/reserve", "then lease_held(low) end", "then local _ end"),)),
    Build(
        "a number ignores the limits",
        (
            (
                _GROUPS,
                "    if queue.limited then\n      entry, state",
                "    if queue.limited and level < 3 then\n      entry, state",
            ),
        ),
    ),
    Build(
        "held jobs of lower numbers come first",
        (("queue/reserve", "for level = low, high do", "for level = high, low, -1 do"),),
    ),
    Build(
        "a successful probe does not resume",
        (
            (
                _PART,
                "if ended == 's' then\n      task_limits.pause(state, 0)",
                "if ended == 's' then\n      state.probe = ''",
            ),
        ),
    ),
    Build(
        "a failed probe resumes",
        (
            (
                _PART,
                "elseif ended == 'f' then\n      task_limits.pause(state, state.pause)",
                "elseif ended == 'f' then\n      task_limits.pause(state, 0)",
            ),
        ),
    ),
    Build("a returned probe blocks the task", ((_PART, "state.probe = '' -- another job probes", ""),)),
    Build("a resumed task wakes no worker", (("queue/resume_task", "wake(500)", ""),)),
    Build(
        "a settled job counts twice",
        (
            (
                "queue/settle",
                "if string.find(token, '+', 1, true) then",
                "if string.find(token, '+', 1, true) then task_limits.ended(token, id)",
            ),
        ),
    ),
)
