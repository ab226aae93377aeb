-- Flows in the hash `flows`; docs/keys.md lists its fields. A flow is {id, record, steps}.
--   record.state: storing, running, compensating or ended; removing: an ended flow is being deleted; discarding: a flow
--     that never ran is being deleted
--   record.jobs, stored, succeeded, failed, cancelled: counts of jobs; skipped: the same, missing if there are none
--   record.first_failure: number of the first job that failed or was cancelled and is not optional, or 0
--   record.stopped: the flow was cancelled; record.compensates: a failed job requires compensations
--   record.successes: succeeded jobs whose compensation has not run; record.compensating: the job whose compensation
--     runs, or 0
--   record.compensated, uncompensated: compensations that succeeded, and that failed
--   steps: remaining steps, in order. {parent, at}: handle the children of job `parent` from position `at` on;
--     {cancel, at}: cancel the jobs from number `at` on; {lost, at}: queue `lost` lost its part of the flow (in that
--     part: the flow is lost), which ends the jobs from number `at` on
-- A flow with jobs in several queues is stored in its home, the queue of its first call; each other queue has a part.
--   record.parts: in the home: per queue 1, or 0 if that queue has lost its part
--   record.home: in a part: the queue of the home. A part is storing, running, ended, removing or discarding
-- KEYS: flows: hash
local flow_parts = {} -- the main function of a script may have 200 locals, so parts of flows share one

function flow_parts.store()
  local LETTERS = {answer = 'a', steps = 't', children = 'k', waits = 'w', ended = 'r', delay = 'l', policy = 'p',
    compensation = 'x', success = 'y', queue = 'q', undo_queue = 'v', reported = 'd', causes = 'e'}
  local opened = {} -- by id; false: unknown
  local store = {opened = opened}

  function store.job_id(flow, number)
    return string.format('%s.%05d', flow.id, number)
  end

  local function field(flow, name, number)
    return flow.id .. ' ' .. LETTERS[name] .. (number or '')
  end
  store.field = field

  function store.get(flow, name, number)
    return redis.call('HGET', flows, field(flow, name, number))
  end

  function store.has(flow, name, number)
    return redis.call('HEXISTS', flows, field(flow, name, number)) == 1
  end

  function store.set(flow, name, number, value)
    redis.call('HSET', flows, field(flow, name, number), value)
  end

  function store.delete(flow, name, number)
    redis.call('HDEL', flows, field(flow, name, number))
  end

  -- A value that cannot be decoded counts as missing, so that its jobs and other flows continue.
  local function decode(name)
    local packed = redis.call('HGET', flows, name)
    if not packed then return nil end
    local fine, value = pcall(cmsgpack.unpack, packed)
    return fine and type(value) == 'table' and value or nil
  end

  function store.children(flow, number)
    return decode(field(flow, 'children', number)) or {}
  end

  -- Return a flow, or false.
  function store.open(id)
    if opened[id] == nil then
      local record = decode(id)
      local flow = record and record.state and {id = id, record = record}
      if flow then flow.steps = decode(field(flow, 'steps')) or {} end
      opened[id] = flow or false
    end
    return opened[id]
  end

  function store.create(id, jobs)
    opened[id] = {id = id, steps = {}, record = {state = 'storing', jobs = jobs, stored = 0, succeeded = 0, failed = 0,
      cancelled = 0, first_failure = 0, stopped = false, compensates = false, successes = 0, compensating = 0, compensated = 0,
      uncompensated = 0}}
    return opened[id]
  end

  function store.save(flow)
    redis.call('HSET', flows, flow.id, cmsgpack.pack(flow.record))
  end

  function store.save_steps(flow)
    store.set(flow, 'steps', nil, cmsgpack.pack(flow.steps))
  end

  -- Delete the stored fields of one job.
  function store.delete_job(flow, number)
    local fields = {}
    for _, name in ipairs({'children', 'waits', 'causes', 'ended', 'delay', 'policy', 'compensation', 'success'}) do
      fields[#fields + 1] = field(flow, name, number)
    end
    if store.spans(flow) then
      for _, name in ipairs({'queue', 'undo_queue', 'reported'}) do fields[#fields + 1] = field(flow, name, number) end
    end
    redis.call('HDEL', flows, unpack(fields))
  end

  -- Whether the flow has jobs in other queues.
  function store.spans(flow)
    return flow.record.parts or flow.record.home
  end

  function store.active(flow)
    return flow and (flow.record.state == 'running' or flow.record.state == 'compensating')
  end

  return store
end
