-- The jobs of flows: how the end of a job changes its flow, and how jobs that wait for others are started or cancelled.
-- The header of such a job ends with `>`. Its id is FLOW.NUMBER; the id of its compensation is FLOW.NUMBERu. The home of
-- a flow knows the progress of all its jobs. It sends messages about jobs of other queues to the parts there, which
-- store these jobs and report their ends (flows/parts/messages.lua).
-- KEYS: jobs, due, tries, job_notes, expiry, groups, flows: hash, <queue/suspects>, <history/history>
-- include: queue/push
-- include: queue/finish
-- include: queue/groups
-- include: queue/suspects
-- include: queue/retry_until
-- include: flows/store
function flow_parts.jobs(store, outbox)
  local LOST = '{"type":"FlowPartLost","message":"its queue has lost its part of the flow"}'
  local get, has = store.get, store.has
  local members = {
    SKIPPED = 'n', -- as the cause of a cancellation: none of the jobs whose failure the job waits for has failed
    running = {}, -- ids of running jobs that got a cancellation request in this call
    cancelled_bytes = 0, -- total size of the records of jobs that this call cancelled
    released = 0, -- jobs that messages of this call released
  }

  -- Return the other queue of a job, or of its compensation; nil if the job is here.
  local function queue_of(flow, number, name)
    return flow.record.parts and get(flow, name or 'queue', number) or nil
  end

  -- Send a message to the part of a flow in another queue. Return false if that queue has lost its part.
  local function send(flow, name, kind, ...)
    if flow.record.parts[name] ~= 1 then return false end
    outbox.send(name, kind, flow.id, ...)
    return true
  end

  local function count_unblocked()
    if redis.call('HINCRBY', flows, '#', -1) <= 0 then redis.call('HDEL', flows, '#') end
  end

  local function count_success(flow, number)
    local record = flow.record
    record.succeeded = record.succeeded + 1
    if has(flow, 'compensation', number) or queue_of(flow, number, 'undo_queue') then
      record.successes = record.successes + 1
      store.set(flow, 'success', record.successes, number)
    end
  end

  -- `cause`: the number of the job whose failure cancelled this job, or ''.
  local function count_failure(flow, number, letter, cause)
    local record, policy = flow.record, get(flow, 'policy', number)
    local count = letter == 'f' and 'failed' or 'cancelled'
    record[count] = record[count] + 1
    if letter == 'c' and cause ~= '' then return end
    if policy ~= 'i' and record.first_failure == 0 then record.first_failure = number end
    if policy == 'u' then record.compensates = true end
  end

  -- In a part: report the first end of a job to the home. Return whether it is the first.
  local function report_end(flow, number, letter, value)
    if redis.call('HSETNX', flows, store.field(flow, 'reported', number), letter) == 0 then return false end
    if has(flow, 'waits', number) then count_unblocked() end
    if value then outbox.send(flow.record.home, 'ended', flow.id, number, letter, value) end
    return true
  end

  -- Record the first end of a job. A later run by an operator changes nothing. Return whether it is the first.
  local function record_end(flow, number, letter, value)
    if flow.record.home then return report_end(flow, number, letter, value) end
    if redis.call('HSETNX', flows, store.field(flow, 'ended', number), letter .. value) == 0 then return false end
    if has(flow, 'waits', number) and not queue_of(flow, number) then count_unblocked() end
    if letter == 's' then
      count_success(flow, number)
    elseif letter == 'n' then
      flow.record.skipped = (flow.record.skipped or 0) + 1
    else
      count_failure(flow, number, letter, value)
    end
    if has(flow, 'children', number) then flow.steps[#flow.steps + 1] = {parent = number, at = 1} end
    return true
  end

  -- Record that a compensation ended.
  local function record_compensation(flow, number, letter)
    local record = flow.record
    if record.home then return outbox.send(record.home, 'undone', flow.id, number, letter) end
    if record.compensating ~= number then return end
    record.compensating = 0
    local count = letter == 's' and 'compensated' or 'uncompensated'
    record[count] = record[count] + 1
  end

  -- Update the flow of an ended job. letter s: succeeded, value is its result; f: failed, value is the error; c:
  -- cancelled.
  function members.ended(id, job_record, letter, value)
    if not string.find(job_record, '^%d,[%d/]+,[^,;]*,[^,;]*,[^;]*>;') then return end
    local flow_id, number, compensation = string.match(id, '^(.+)%.(%d+)(u?)$')
    local flow = flow_id and store.open(flow_id)
    if not store.active(flow) then return end
    number = tonumber(number)
    if compensation == 'u' then return record_compensation(flow, number, letter) end
    record_end(flow, number, letter, value)
  end

  -- Count down the parents that a job waits for. A cancelled job counts, too, because it may run again. Return how many
  -- jobs may now run, 0 or 1.
  function members.parent_ended(flow, number)
    local left = store.field(flow, 'waits', number)
    if redis.call('HEXISTS', flows, left) == 0 or redis.call('HINCRBY', flows, left, -1) > 0 then return 0 end
    local elsewhere = queue_of(flow, number)
    if elsewhere then
      redis.call('HDEL', flows, left)
      if not send(flow, elsewhere, 'start', number) then record_end(flow, number, 'f', LOST) end
      return 0
    end
    local id = store.job_id(flow, number)
    local waits = redis.call('HEXISTS', jobs, id) == 1
    if waits then
      count_unblocked()
      redis.call('ZADD', due, moment(get(flow, 'delay', number) or 0), id)
    else
      record_end(flow, number, 'c', '') -- if an operator deleted it with redis-cli
    end
    redis.call('HDEL', flows, left)
    return waits and 1 or 0
  end

  -- Return whether a job that was cancelled while it waited for others would still have to wait.
  function members.still_waits(id)
    local flow_id, number = string.match(id, '^(.+)%.(%d+)$')
    local flow = store.open(flow_id)
    if flow and (flow.record.state == 'storing' or flow.record.state == 'running') then return true end
    redis.call('HDEL', flows, flow_id .. ' w' .. tonumber(number)) -- all jobs have ended, so no call counts it down
    return false
  end

  local function forget_job(id, job_record)
    redis.call('HDEL', jobs, id)
    redis.call('HDEL', tries, id)
    forget_timelines({id})
    redis.call('HDEL', job_notes, id)
    redis.call('ZREM', expiry, id)
    redis.call('ZREM', due, id)
    unpark({id}, true)
    clear_suspect(id)
    leave_group_queue(id, job_record)
  end

  -- End a job of this queue that has not started. `cause`: the number of the job that failed, '' or SKIPPED.
  local function drop(flow, number, cause, outcomes)
    local id = store.job_id(flow, number)
    local job_record = redis.call('HGET', jobs, id)
    if job_record then
      local skipped = cause == members.SKIPPED
      local reason = cause ~= '' and not skipped and '>' .. store.job_id(flow, cause) or ''
      outcomes[#outcomes + 1] = id
      local tried = redis.call('HGET', tries, id)
      outcomes[#outcomes + 1] = (skipped and 'n' or 'c') .. attempts(tried) .. reason .. ';' .. job_record
      if skipped then
        redis.call('HINCRBY', stats, 'skipped', 1) -- history, and counts of ends, are for jobs that were to run
      else
        keep_ended(id, 'c', tried or '0', job_record, '')
        count_job(job_record, 'c')
      end
      members.cancelled_bytes = members.cancelled_bytes + #job_record
      forget_job(id, job_record)
    end
  end

  -- Cancel or skip a job that has not started. `cause` as in `drop`.
  function members.cancel(flow, number, cause, outcomes)
    local elsewhere, letter, value = queue_of(flow, number), 'c', cause
    if cause == members.SKIPPED then letter, value = 'n', '' end
    if not elsewhere then
      drop(flow, number, cause, outcomes)
      record_end(flow, number, letter, value)
    elseif record_end(flow, number, letter, value) then
      send(flow, elsewhere, 'cancel', number, cause)
    end
  end

  -- In the home: one of the jobs whose failure a job waits for has ended. The first failure is enough; without any, the
  -- last end skips the job.
  function members.cause_ended(flow, number, failed, outcomes)
    local left = store.field(flow, 'causes', number)
    if redis.call('HEXISTS', flows, left) == 0 then return end -- another has failed
    if failed then
      redis.call('HDEL', flows, left)
    elseif redis.call('HINCRBY', flows, left, -1) == 0 then
      redis.call('HDEL', flows, left)
      members.cancel(flow, number, members.SKIPPED, outcomes)
    end
  end

  -- Cancel a job of a cancelled flow: at once if it has not started, else when its worker reads the request.
  function members.stop(flow, number, outcomes)
    if has(flow, flow.record.home and 'reported' or 'ended', number) then return end
    local elsewhere = queue_of(flow, number)
    if elsewhere and not has(flow, 'waits', number) then return send(flow, elsewhere, 'stop', number) end
    local id = store.job_id(flow, number)
    local waits = has(flow, 'waits', number) or redis.call('ZSCORE', due, id)
      or redis.call('HEXISTS', groups, '@ ' .. id) == 1 or is_suspect(id) or redis.call('HEXISTS', jobs, id) == 0
    if waits then return members.cancel(flow, number, '', outcomes) end
    redis.call('HSET', job_notes, id, '1' .. string.sub(redis.call('HGET', job_notes, id) or '0', 2))
    members.running[#members.running + 1] = id
  end

  -- Put the compensation of a job into this queue; return false if there is none. A part does so once.
  local function start_compensation(flow, number)
    local compensation = get(flow, 'compensation', number)
    if not compensation then return false end
    if flow.record.home then store.delete(flow, 'compensation', number) end
    local id = store.job_id(flow, number) .. 'u'
    redis.call('HSET', jobs, id, retry_until.start(compensation))
    redis.call('ZADD', due, math.floor(now / 1000), id)
    redis.call('HINCRBY', stats, 'enqueued', 1)
    members.released = members.released + 1
    return true
  end

  -- Start the compensation of a job, here or in its queue; return false if there is none.
  function members.compensate(flow, number)
    local elsewhere = queue_of(flow, number, 'undo_queue')
    local started
    if elsewhere then started = send(flow, elsewhere, 'undo', number) else started = start_compensation(flow, number) end
    if started then
      flow.record.compensating = number
    elseif elsewhere then
      flow.record.uncompensated = flow.record.uncompensated + 1
    end
    return started
  end

  -- In the home: record that a job, and a compensation, ended with a queue's part.
  function members.lose_job(flow, number, name)
    if queue_of(flow, number) == name then record_end(flow, number, 'f', LOST) end
  end

  function members.lose_compensation(flow, name)
    local number = flow.record.compensating
    if number > 0 and queue_of(flow, number, 'undo_queue') == name then record_compensation(flow, number, 'f') end
  end

  -- In a part: cancel a job that waits for others, because the home has ended it, or is lost.
  function members.cancel_blocked(flow, number, cause, outcomes)
    if not has(flow, 'waits', number) or not report_end(flow, number, 'c') then return end
    drop(flow, number, cause, outcomes)
  end

  -- In a part: start a job whose parents have ended. A cancelled job may now run again.
  function members.start(flow, number)
    if not has(flow, 'waits', number) then return end
    local id = store.job_id(flow, number)
    if redis.call('HEXISTS', jobs, id) == 1 then
      count_unblocked()
      redis.call('ZADD', due, moment(get(flow, 'delay', number) or 0), id)
      members.released = members.released + 1
    else
      report_end(flow, number, 'c', '') -- unless it was reported: an operator deleted it with redis-cli
    end
    store.delete(flow, 'waits', number)
  end

  -- In the home: apply a report of a part.
  members.record_end, members.record_compensation = record_end, record_compensation
  members.start_compensation = start_compensation

  return members
end
