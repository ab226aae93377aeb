-- Flows: jobs that wait for other jobs. A script that ends jobs calls flow_ended for each, and carry_on before it
-- returns.
-- KEYS: jobs, due, stats, watch, expiry, flows: hash
-- include: queue/push
-- include: queue/finish
-- include: queue/groups
-- include: flows/store
-- include: flows/outbox
-- include: flows/jobs
function flow_parts.engine()
  local STEPS = 150 -- jobs that are started or cancelled in one call
  -- After this time (ms) without news, home and part ask each other whether they still exist. While a part is stored,
  -- it waits longer than the home, which forgets an incomplete flow after 10 minutes.
  local ASK, ASK_STORING = 3600000, 660000
  local store, outbox = flow_parts.store(), flow_parts.outbox()
  local members = flow_parts.jobs(store, outbox)

  local function full()
    return members.cancelled_bytes > BYTES
  end

  -- Return whether a job has failed, or was cancelled because another job of its flow failed. `cause`: the number of the
  -- job that failed or was cancelled first. A job that a caller cancels has not failed.
  local function has_failed(flow, letter, cause, number)
    if letter ~= 'c' then return letter == 'f' end
    return cause ~= number and string.sub(store.get(flow, 'ended', cause) or '', 1, 1) == 'f'
  end

  -- Start, cancel or skip the children of an ended job. Return the next position, or nil; how many jobs may run; and how
  -- many children were handled.
  local function handle_children(flow, step, most, outcomes)
    local children, released = store.children(flow, step.parent), 0
    local ended = step.parent > 0 and store.get(flow, 'ended', step.parent) or 's'
    local letter, cause = string.sub(ended, 1, 1), step.parent
    if letter == 'c' and #ended > 1 then cause = tonumber(string.sub(ended, 2)) end
    local passes = letter == 's' or store.get(flow, 'policy', step.parent) == 'i'
    local at, last, failed = step.at, math.min(#children, step.at + most - 1), nil
    while at <= last and not full() do
      local child = math.abs(children[at])
      if children[at] < 0 then
        if failed == nil then failed = has_failed(flow, letter, cause, step.parent) end
        members.cause_ended(flow, child, failed, outcomes)
      elseif not passes and store.has(flow, 'waits', child) then
        members.cancel(flow, child, letter == 'n' and members.SKIPPED or cause, outcomes)
      end
      released = released + members.parent_ended(flow, child)
      at = at + 1
    end
    return at <= #children and at or nil, released, at - step.at
  end

  -- Cancel jobs of a cancelled flow. Return the same values as handle_children.
  local function cancel_jobs(flow, step, most, outcomes)
    local at, last = step.at, math.min(flow.record.jobs, step.at + most - 1)
    while at <= last and not full() do
      members.stop(flow, at, outcomes)
      at = at + 1
    end
    return at <= flow.record.jobs and at or nil, 0, at - step.at
  end

  -- End the jobs of a lost part, or of the part of a lost home. Return the same values as handle_children.
  local function lose_jobs(flow, step, most, outcomes)
    local at, last = step.at, math.min(flow.record.jobs, step.at + most - 1)
    while at <= last and not full() do
      if flow.record.home then members.cancel_blocked(flow, at, '', outcomes) else members.lose_job(flow, at, step.lost) end
      at = at + 1
    end
    return at <= flow.record.jobs and at or nil, 0, at - step.at
  end

  -- Run a flow's steps, up to `most`. Return how many jobs may run, and how much of `most` is left.
  local function take_steps(flow, most, outcomes)
    local steps, first, released = flow.steps, 1, 0
    while steps[first] and most > 0 and not full() do
      local step = steps[first]
      local take = step.cancel and cancel_jobs or step.lost and lose_jobs or handle_children
      local goes_on, started, handled = take(flow, step, most, outcomes)
      released, most = released + started, most - math.max(1, handled)
      if goes_on then step.at = goes_on else first = first + 1 end
    end
    local rest = {}
    for at = first, #steps do rest[#rest + 1] = steps[at] end
    flow.steps = rest
    return released, most
  end

  -- Start the next compensation, the latest success first; false if there is none.
  local function compensate(flow)
    local record = flow.record
    while record.successes > 0 do
      local number = tonumber(store.get(flow, 'success', record.successes))
      store.delete(flow, 'success', record.successes)
      record.successes = record.successes - 1
      if number and members.compensate(flow, number) then return true end
    end
    return false
  end

  local function notify_watchers(flow)
    local channels = redis.call('HGET', watch, flow.id)
    if not channels then return end
    redis.call('HDEL', watch, flow.id)
    for channel in string.gmatch(channels, '[^%s\1]+') do publish(channel, flow.id) end
  end

  -- Let workers `remove` a flow after `ms`, or ask for it if it has not ended then.
  local function visit_after(flow, ms)
    redis.call('ZADD', expiry, -(math.floor(now / 1000) + ms), 'flow ' .. flow.id)
  end

  -- Send a message to all parts of a flow, or to the home of a part.
  local function send_to_all(flow, kind)
    if flow.record.home then return outbox.send(flow.record.home, kind, flow.id) end
    for name, known in pairs(flow.record.parts or {}) do
      if known == 1 then outbox.send(name, kind, flow.id) end
    end
  end

  local function finish(flow, window)
    flow.record.state = 'ended'
    visit_after(flow, window)
    send_to_all(flow, 'over')
    notify_watchers(flow)
  end

  local function all_ended(record)
    return record.succeeded + record.failed + record.cancelled + (record.skipped or 0) == record.jobs
  end

  -- Let compensations run when all jobs have ended.
  local function end_jobs(flow)
    local record = flow.record
    if record.home or record.state ~= 'running' or not all_ended(record) then return end
    record.state, flow.steps = 'compensating', {}
    if not record.compensates then record.successes = 0 end
  end

  -- Continue one flow. Return how many jobs may run, and how much of `most` is left.
  local function advance(flow, most, outcomes, window)
    local had_steps, released = #flow.steps > 0, 0
    released, most = take_steps(flow, most, outcomes)
    end_jobs(flow)
    if #flow.steps > 0 then
      store.save_steps(flow)
      redis.call('ZADD', expiry, math.floor(now / 1000), 'flow ' .. flow.id) -- queue/expire does the rest
    elseif had_steps then
      store.delete(flow, 'steps')
      if store.spans(flow) then visit_after(flow, ASK) else redis.call('ZREM', expiry, 'flow ' .. flow.id) end
    end
    if flow.record.state == 'compensating' and flow.record.compensating == 0 and not compensate(flow) then
      finish(flow, window)
    end
    if flow.record.lost and #flow.steps == 0 then
      flow.record.state = 'ended'
      visit_after(flow, window)
    end
    store.save(flow)
    return released, most
  end

  -- Continue all flows that this call has opened. Cancelled jobs are added to the outcomes.
  local function carry_on(outcomes, window)
    local most, before, released = STEPS, #outcomes, 0
    for _, flow in pairs(store.opened) do
      if store.active(flow) then
        local started
        started, most = advance(flow, most, outcomes, window)
        released = released + started
      end
    end
    released = released + members.released
    if outbox.save() then released = released + 1 end -- a woken worker relays the messages
    wake(released + (#outcomes > before and 1 or 0)) -- another job may have received a cancelled job's key
  end

  -- Open a flow with steps left, for carry_on. A flow without steps is left to `remove`.
  local function resume(id)
    local flow = store.open(id)
    if store.active(flow) and #flow.steps > 0 then return end
    redis.call('ZADD', expiry, -math.floor(now / 1000), 'flow ' .. id)
  end

  -- Delete the fields of up to `most` jobs, from the last on. Return how many were deleted, and their bytes.
  local function remove_jobs(flow, most, never_ran)
    local record, ids, size = flow.record, {}, 0
    local number, stop = record.jobs, math.max(-1, record.jobs - math.min(most, 200))
    while number > stop and size <= BYTES do
      local id = store.job_id(flow, number)
      ids[#ids + 1] = id
      size = size + redis.call('HSTRLEN', flows, store.field(flow, 'ended', number)) + redis.call('HSTRLEN', jobs, id)
      store.delete_job(flow, number)
      number = number - 1
    end
    if never_ran then redis.call('HDEL', jobs, unpack(ids)) end
    local removed = record.jobs - number
    record.jobs = number
    return removed, size
  end

  local function remove_record(id)
    redis.call('HDEL', flows, id, id .. ' a', id .. ' t', id .. ' k0')
    redis.call('ZREM', expiry, 'flow ' .. id)
    store.opened[id] = false
  end

  -- Delete up to `most` jobs of a flow that ended long ago, or was not stored completely in time. Return how many
  -- were deleted, and their bytes.
  local function remove(id, most)
    local flow = store.open(id)
    local storing_part = flow and flow.record.home and flow.record.state == 'storing'
    if store.active(flow) or storing_part then
      if store.spans(flow) then
        send_to_all(flow, 'ask')
        outbox.save()
        visit_after(flow, storing_part and ASK_STORING or ASK)
      else
        redis.call('ZREM', expiry, 'flow ' .. id)
      end
      return 1, 0
    end
    if not flow then
      remove_record(id)
      return 1, 0
    end
    local state = flow.record.state
    local never_ran = state == 'storing' or state == 'discarding'
    local removed, size = remove_jobs(flow, most, never_ran)
    if flow.record.jobs >= 0 then
      flow.record.state = never_ran and 'discarding' or 'removing'
      store.save(flow)
    else
      remove_record(id)
    end
    return removed, size
  end

  -- Begin a flow whose jobs are all stored. `count`: its jobs in this queue.
  local function begin(flow, count)
    if count > 0 then redis.call('HINCRBY', flows, '#', count) end
    redis.call('HINCRBY', stats, 'enqueued', count)
    flow.record.state = 'running'
    if store.spans(flow) then visit_after(flow, ASK) else redis.call('ZREM', expiry, 'flow ' .. flow.id) end
    if flow.record.parts then send_to_all(flow, 'begin') end
  end

  return {store = store, outbox = outbox, members = members, running = members.running, ended = members.ended,
    still_waits = members.still_waits, begin = begin, carry_on = carry_on, resume = resume, remove = remove,
    visit_after = visit_after, ASK_STORING = ASK_STORING}
end

-- Made on first use: most calls have no job of a flow.
local made_flow_engine
local function flow_engine()
  made_flow_engine = made_flow_engine or flow_parts.engine()
  return made_flow_engine
end

local function flow_ended(id, record, letter, value)
  if string.find(record, '>;', 1, true) then flow_engine().ended(id, record, letter, value) end
end

local function carry_on(outcomes, window)
  if made_flow_engine then made_flow_engine.carry_on(outcomes, window) end
end
