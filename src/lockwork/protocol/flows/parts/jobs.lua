-- The jobs of flows: how the end of a job changes its flow, and how jobs that wait for others are started or cancelled.
-- The header of such a job ends with `>`. Its id is FLOW.NUMBER; the id of its compensation is FLOW.NUMBERu.
-- KEYS: jobs, due, tries, job_notes, expiry, groups, flows: hash, <queue/suspects>, <history/history>
-- include: queue/push
-- include: queue/finish
-- include: queue/groups
-- include: queue/suspects
-- include: flows/store
local function flow_jobs(store)
  local get, has = store.get, store.has
  local members = {
    running = {}, -- ids of running jobs that got a cancellation request in this call
    cancelled_bytes = 0, -- total size of the records of jobs that this call cancelled
  }

  local function count_unblocked()
    if redis.call('HINCRBY', flows, '#', -1) <= 0 then redis.call('HDEL', flows, '#') end
  end

  local function count_success(flow, number)
    local record = flow.record
    record.succeeded = record.succeeded + 1
    if has(flow, 'compensation', number) then
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

  -- Record the first end of a job. A later run by an operator changes nothing.
  local function record_end(flow, number, letter, value)
    if redis.call('HSETNX', flows, store.field(flow, 'ended', number), letter .. value) == 0 then return end
    if has(flow, 'waits', number) then count_unblocked() end
    if letter == 's' then count_success(flow, number) else count_failure(flow, number, letter, value) end
    if has(flow, 'children', number) then flow.steps[#flow.steps + 1] = {parent = number, at = 1} end
  end

  -- Record that a compensation ended.
  local function record_compensation(flow, number, letter)
    local record = flow.record
    if record.compensating ~= number then return end
    record.compensating = 0
    local count = letter == 's' and 'compensated' or 'uncompensated'
    record[count] = record[count] + 1
  end

  -- Update the flow of an ended job. letter s: succeeded, value is its result; f: failed, value is the error; c:
  -- cancelled.
  function members.ended(id, job_record, letter, value)
    if not string.find(job_record, '^[012],[%d/]+,[^,;]*,[^,;]*,[^;]*>;') then return end
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

  -- Cancel a job that has not started. `cause`: the number of the job that failed, or ''.
  function members.cancel(flow, number, cause, outcomes)
    local id = store.job_id(flow, number)
    local job_record = redis.call('HGET', jobs, id)
    if job_record then
      local reason = cause ~= '' and '>' .. store.job_id(flow, cause) or ''
      outcomes[#outcomes + 1] = id
      local tried = redis.call('HGET', tries, id)
      outcomes[#outcomes + 1] = 'c' .. attempts(tried) .. reason .. ';' .. job_record
      keep_ended(id, 'c', tried or '0', job_record, '')
      members.cancelled_bytes = members.cancelled_bytes + #job_record
      forget_job(id, job_record)
      count_job(job_record, 'c')
    end
    record_end(flow, number, 'c', cause)
  end

  -- Cancel a job of a cancelled flow: at once if it has not started, else when its worker reads the request.
  function members.stop(flow, number, outcomes)
    if has(flow, 'ended', number) then return end
    local id = store.job_id(flow, number)
    local waits = has(flow, 'waits', number) or redis.call('ZSCORE', due, id)
      or redis.call('HEXISTS', groups, '@ ' .. id) == 1 or is_suspect(id) or redis.call('HEXISTS', jobs, id) == 0
    if waits then return members.cancel(flow, number, '', outcomes) end
    redis.call('HSET', job_notes, id, '1' .. string.sub(redis.call('HGET', job_notes, id) or '0', 2))
    members.running[#members.running + 1] = id
  end

  return members
end
