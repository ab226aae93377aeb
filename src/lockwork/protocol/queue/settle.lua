-- Ends, retries or returns leased jobs.
-- KEYS: <queue/push>, <queue/finish>, <queue/groups>, suspects, job_notes, expiry: zset, long_results: hash, flows: hash; run: hash
-- ARGV: window: number, tasks, (id, token, outcome, value, delay)
--   window: ms; delay: ms; tasks: the tasks of the jobs, in the same order, `TASK JOBS TASK JOBS ...`;
--     `TASK JOBS!` if the jobs are tracked
--   outcome:
--     s: succeeded, value is the result, stored for the delay unless it is 0; o: as s, and the job ignored its time-out
--     r: retry after the delay, value is the error; k: retry after the delay, its process died
--     d: dead, value is the error; K: dead, its process died; c: cancelled
--     g: return, without counting an attempt; z: as g, after the delay; n: as g, and the job did not begin
--     u: as n, after a growing pause: the worker cannot run the call, and value is the reason (queue/parts/parked.lua)
-- Out of memory: goes on
-- Reply: per job SETTLED; LEASE_OVER: the lease belongs to another holder, and nothing was written; or POSTPONED:
--   another call must settle it, because earlier records of this call were large
-- Codes: settled=1, lease_over=0, postponed=-1
-- Invariants: only the holder of the current lease settles a job; a job is in one place before and after
-- include: now
-- include: queue/push
-- include: queue/finish
-- include: queue/groups
-- include: flows/ended
-- include: queue/suspects
local noted = redis.call('HLEN', job_notes) > 0
local ids, reply = {}, {}
for at = FIRST, #ARGV, STRIDE do ids[#ids + 1] = ARGV[at] end
local tokens = redis.call('HMGET', run, unpack(ids))
local marks = noted and redis.call('HMGET', job_notes, unpack(ids))
local over, ended, outcomes, retried, known_here, again, successes = {}, {}, {}, {}, {}, 0, 0
local session, sample, sampled = string.match(run, '}:run:(.+)$'), {}, 2 * success_budget()
local fits, put_off = queue.heavy and allowance(), false
local next_run, counts, last = string.gmatch(tasks, '(%S+) (%d+)(!?)'), nil, 0
local tracked_task, entries = nil, {}
local places = false -- whether a task with limits has a free place again

-- Return whether this call may read the job's record, if it needs it.
local function affords(id, token, outcome, mark)
  local reads = outcome == 'c' or outcome == 'g' or outcome == 'n' or string.find(token, '^[%d/]+%*') or (mark and string.sub(mark, 1, 1) == '1')
  return not reads or fits(id)
end

for index, id in ipairs(ids) do
  local at = FIRST + (index - 1) * STRIDE
  local token, outcome, value, delay = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  while index > last do
    local task, length, mark = next_run()
    tracked_task = mark == '!' and task
    counts, last = counts_of(task or OTHER), last + (length or math.huge)
  end
  put_off = put_off or (fits and tokens[index] == token and not affords(id, token, outcome, marks and marks[index]))
  if put_off then
    reply[index] = POSTPONED
  elseif tokens[index] ~= token then
    reply[index] = LEASE_OVER
  else
    reply[index] = SETTLED
    over[#over + 1] = id
    local tried, special = string.match(token, '^([%d/]+)(%*?)')
    local failure, overran = 'f', outcome == 'o'
    if overran then outcome = 's' end
    if outcome == 'k' or outcome == 'K' then
      tried = crashed(token)
      outcome = outcome == 'k' and 'r' or 'd'
      failure = 'k'
    end
    local mark = marks and marks[index]
    -- it has a cancellation request, so it is not retried
    if mark and outcome ~= 's' and string.sub(mark, 1, 1) == '1' then outcome = 'c' end
    if string.find(token, '+', 1, true) then
      places = task_limits.ended(token, id, outcome == 's' and 's' or (outcome == 'r' or outcome == 'd') and 'f' or nil) or places
    end
    local unbegun = outcome == 'n' or outcome == 'u'
    if mark and (outcome == 's' or outcome == 'c') then delete_note(id, mark, outcomes) end
    if queue.has_parked and outcome ~= 'u' then known_here[#known_here + 1] = id end
    local expires_ms = unbegun and string.match(token, '@(%d+)$')
    if expires_ms then redis.call('ZADD', expiry, expires_ms, id) end
    if special == '*' then
      local record = redis.call('HGET', jobs, id) or ''
      if unbegun and unique_name(record) == 's' then retake_name(id, record, dead) end
      again = again + release_slot(id, record, outcome == 's' or outcome == 'd' or outcome == 'c')
      local letter = ({s = 's', d = 'f', c = 'c'})[outcome]
      if letter then flow_ended(id, record, letter, letter ~= 'c' and value or '') end
    end
    if tracked_task and (outcome == 's' or outcome == 'd' or outcome == 'c') then
      entries[#entries + 1] = math.floor(now / 1000) + tracking.own_ms
      entries[#entries + 1] = id .. ' ' .. tracked_task
    end
    if outcome == 's' then
      ended[#ended + 1] = id
      outcomes[#outcomes + 1] = id
      if delay == '0' then
        outcomes[#outcomes + 1] = 's' .. value
      else
        outcomes[#outcomes + 1] = 's'
        tracking.keep(id, 's' .. value, tonumber(delay))
      end
      if overran then
        keep_ended(id, 's', token, redis.call('HGET', jobs, id) or '', session, true)
      elseif #sample < sampled then
        sample[#sample + 1] = id
        sample[#sample + 1] = token
      end
      if tried ~= '1' then retried[#retried + 1] = id end
      counts.s = (counts.s or 0) + 1
      if not overran then successes = successes + 1 end
    elseif outcome == 'd' then
      bury(id, tried, value)
      note_attempt(id, token, failure, value, session)
      outcomes[#outcomes + 1] = id
      outcomes[#outcomes + 1] = 'f' .. value
      counts.d = (counts.d or 0) + 1
    elseif outcome == 'c' then
      ended[#ended + 1] = id
      outcomes[#outcomes + 1] = id
      local record = redis.call('HGET', jobs, id) or ''
      outcomes[#outcomes + 1] = ending('c', tried, record)
      if tracked_task then tracking.keep(id, outcomes[#outcomes], tracking.kept_ms(record) or window) end
      keep_ended(id, 'c', token, record, session)
      retried[#retried + 1] = id
      counts.c = (counts.c or 0) + 1
    elseif outcome == 'z' then
      redis.call('ZADD', due, math.floor(now / 1000) + delay, id)
      again = again + 1
    elseif outcome == 'u' then
      park(id, value)
      again = again + 1
    elseif outcome == 'r' then
      redis.call('HSET', tries, id, tried)
      note_attempt(id, token, failure, value, session)
      redis.call('ZADD', due, math.floor(now / 1000) + delay, id)
      counts.r = (counts.r or 0) + 1
      again = again + 1
    elseif ran_alone(token) then
      suspect(id, 0)
    elseif special == '*' then
      local record = redis.call('HGET', jobs, id)
      if record then admit(id, record, nil, token) end -- else an operator deleted it with redis-cli
    else
      local record = redis.call('HGET', jobs, id)
      if record then redis.call('LPUSH', ready_key(record), id) end -- else an operator deleted it with redis-cli
      again = again + 1
    end
  end
end

local freed = #over > 0 and redis.call('HDEL', run, unpack(over)) or 0
count_freed(freed)
keep_successes(sample, successes, session)
if #ended > 0 then redis.call('HDEL', jobs, unpack(ended)) end
forget_timelines(ended)
unpark(known_here, true)
if #retried > 0 then redis.call('HDEL', tries, unpack(retried)) end
carry_on(outcomes, window)
store_outcomes(outcomes, window)
tracking.add(entries)
save_history()
if places then
  task_limits.save()
  if task_limits.any_held() then again = again + #over end
end
wake(math.max(again, takers(freed, group_queue)))
return reply
