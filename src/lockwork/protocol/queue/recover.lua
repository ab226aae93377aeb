-- Returns the jobs of a worker session that is over, oldest first. Jobs without remaining deliveries become dead. If
-- the process died, a single job counts a crash, and several jobs become suspects (queue/parts/suspects.lua).
-- KEYS: <queue/push>, <queue/finish>, <queue/groups>, <queue/suspects>, workers: zset, job_notes, expiry: zset, flows: hash; run: hash
-- ARGV: window: number, session, gone: flag, channel, most_crashes: number, died: flag, ended
--   window: ms; gone: the caller knows that the session's process is gone; channel: of the session
--   most_crashes: limit of crashes for a job without a delivery limit
--   died: the process died. Otherwise it was stopped, and only jobs with a delivery limit count an attempt; this also
--     holds after a stop request, unless the process is known to have died before it
--   ended: the overdue deadline that a heartbeat saw, if the process is not known to be gone
-- Out of memory: goes on
-- Reply: {jobs returned, jobs that remain for the next call, ids of new and repeated suspects}, {0, 0, {}} if the
--   session lives; then per dead job: id, attempts as in `tries`, the beginning of its record, error
-- Invariants: a live session keeps its jobs; afterwards its tokens settle nothing; a session with remaining jobs stays
--   in workers; a job offered to a session whose lease ended before its next call did not begin, and counts no attempt
-- include: now
-- include: queue/push
-- include: queue/finish
local noted = redis.call('HLEN', job_notes) > 0
-- include: queue/groups
-- include: flows/ended
-- include: queue/suspects
-- include: queue/sessions
local HEAD = 512 -- bytes of a record, enough to read its task
local deadline = tonumber(redis.call('ZSCORE', workers, session) or nil)
-- compare deadlines, not the clock, which may have been set: a renewed session has another deadline
if not gone and deadline and deadline >= 1 and math.floor(deadline) ~= tonumber(ended) then return {0, 0, {}} end
local stopping = deadline and deadline % 1 > 0
if stopping and not gone then died = false end
local had = redis.call('HLEN', run)
local goes_on = deadline and deadline < 1 -- an earlier call has returned other jobs
local shared, beside = died and (goes_on or had > 1), ''
if shared then beside = ' beside ' .. (goes_on and 'other jobs' or had == 2 and 'another job' or had - 1 .. ' other jobs') end
redis.call('ZREM', workers, session)
-- an offer that the session has not confirmed
local offered = -(redis.call('ZSCORE', idle_workers, channel) or 0)
redis.call('ZREM', idle_workers, channel)

-- Return the error of a delivery that ended with its process. `detail` follows the message.
local function worker_died(detail)
  local message = 'its worker ' .. (died and 'died' or 'stopped') .. detail
  return '{"type":"WorkerDied","message":"' .. message .. '"}'
end

-- Return the new entry in `tries` of a delivery, and the error if the job becomes dead. nil: the entry stays; false:
-- the entry stays, and the job did not begin.
local function fate(token, record)
  -- only a frozen process cannot have read its offer; a process that died may have died of the offered job
  if not gone and tonumber(string.match(token, ' (%d+) ~$')) == offered then return false end
  local attempts, most = string.match(record, '^%d,(%d+)/?(%d*)')
  most = tonumber(most)
  -- do not deliver an unreadable record again
  if attempts and not most and not died then return nil end
  local tried, crashes = (shared and shared_crash or crashed)(token)
  local attempt = tonumber(string.match(tried, '^%d+'))
  if most and attempt >= most then
    return tried, worker_died(' while it ran' .. beside .. ', and it was delivered ' .. attempt .. ' of at most ' .. most .. ' times')
  end
  if not attempts or (not most and crashes >= most_crashes) then
    return tried, worker_died(' ' .. crashes .. ' times while it ran')
  end
  return tried
end

-- Return about `count` leased jobs as {id, token, ...}, and none only if none remain. One scan step may find only empty
-- slots, because earlier calls emptied them.
local function held_jobs(count)
  local cursor, held = '0', nil
  repeat
    cursor, held = unpack(redis.call('HSCAN', run, cursor, 'COUNT', count))
  until #held > 0 or cursor == '0'
  return held
end

local held = held_jobs(300)
local fits = queue.heavy and allowance(noted and job_notes)
local tokens, ids = {}, {}
for at = 1, #held, 2 do
  local id, token = held[at], held[at + 1]
  ids[#ids + 1] = id
  tokens[id] = token
end
table.sort(ids, function(one, other) return one > other end) -- each job goes to the front of its list
local back, apart, outcomes, buried, cancelled, freed, dead_jobs, places = 0, {}, {}, 0, 0, 0, {}, 0
for _, id in ipairs(ids) do
  if fits and not fits(id) then break end
  local token, record = tokens[id], redis.call('HGET', jobs, id)
  local over = true
  local ended = died and not shared and 'f' or nil
  if string.find(token, '+', 1, true) and task_limits.ended(token, id, ended) then places = places + 1 end
  if record then
    local special = string.find(token, '^[%d/]+%*')
    local mark = noted and redis.call('HGET', job_notes, id)
    local tried, problem = fate(token, record)
    if mark and string.sub(mark, 1, 1) == '1' then
      delete_note(id, mark, outcomes)
      redis.call('HDEL', tries, id)
      redis.call('HDEL', jobs, id)
      outcomes[#outcomes + 1] = id
      outcomes[#outcomes + 1] = ending('c', tried == false and '' or tried or token, record)
      tracking.track(id, record, outcomes[#outcomes])
      keep_ended(id, 'c', tried == false and '0' or token, record, session)
      forget_timelines({id})
      count_job(record, 'c')
      cancelled = cancelled + 1
      if special then
        freed = freed + release_slot(id, record, true) - 1
        flow_ended(id, record, 'c', '')
      end
    elseif problem then
      bury(id, tried, problem)
      note_attempt(id, token, 'k', problem, session)
      outcomes[#outcomes + 1] = id
      outcomes[#outcomes + 1] = 'f' .. problem
      tracking.track(id, record)
      count_job(record, 'd')
      buried = buried + 1
      for _, part in ipairs({id, tried, string.sub(record, 1, HEAD), problem}) do dead_jobs[#dead_jobs + 1] = part end
      if special then
        freed = freed + release_slot(id, record, true) - 1
        flow_ended(id, record, 'f', problem)
      end
    else
      over = false
      if tried then redis.call('HSET', tries, id, tried) end
      if tried then note_attempt(id, token, 'k', worker_died(' while it ran' .. beside), session) end
      if (shared and tried) or ran_alone(token) then
        if special then freed = freed + release_slot(id, record, false) end
        suspect(id, tried and string.match(token, ' (%d+)') or 0)
        apart[#apart + 1] = id
      elseif special then
        release_slot(id, record, false)
        admit(id, record, nil, token)
      else
        redis.call('LPUSH', ready_key(record), id)
      end
      back = back + 1
    end
  end
  redis.call('HDEL', run, id)
  if over then unpark({id}, true) end
end
carry_on(outcomes, window)
store_outcomes(outcomes, window)
save_history()
local moved = back + buried + cancelled
if moved > 0 and died then redis.call('HINCRBY', stats, 'recovered', moved) end
local rest = redis.call('HLEN', run)
count_freed(had - rest)
-- if the caller dies now, other callers see an overdue session and continue; the session cannot resume
if rest > 0 then redis.call('ZADD', workers, stopping and STOPPING or 0, session) end
if places > 0 then
  task_limits.save()
  if task_limits.any_held() then freed = freed + places end
end
wake(math.max(moved - #apart, takers(had - rest, group_queue)) + freed)
local reply = {back, rest, apart}
for _, part in ipairs(dead_jobs) do reply[#reply + 1] = part end
return reply
