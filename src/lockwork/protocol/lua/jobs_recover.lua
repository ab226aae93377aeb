-- Gives back the jobs of a worker session that is over, the oldest first; one that used up its deliveries goes to the dead set.
-- KEYS: <push>, <finish>, <groups>, workers: zset, job_notes, expiry: zset, flows: hash; run: hash
-- ARGV: window: number, session, gone: flag, channel, most_crashes: number, died: flag, ended
--   window: ms; gone: the caller knows that the session's process is gone; channel: the session's
--   most_crashes: after which a job is dead that has no cap of deliveries
--   died: the process died; else it was stopped: then only jobs with such a cap are counted
--   ended: the deadline of the session as a beat found it overdue, if its process is not known to be gone
-- Out of memory: goes on
-- Reply: {jobs given back, jobs left for the next call}, {0, 0} when the session lives; then for each job that went to the dead set:
--   id, attempts as in `tries`, the beginning of its record, error
-- Invariants: a session that is not over keeps its jobs; afterwards its tokens settle nothing; one with jobs left is in workers;
--   a job that was offered to a session whose lease ended before it called again did not begin, and is not counted
-- include: now
-- include: push
-- include: finish
local noted = redis.call('HLEN', job_notes) > 0
-- include: groups
-- include: flows
local HEAD = 512 -- bytes of a record that are enough to know its task
local DIED = '{"type":"WorkerDied","message":"its worker died while it ran"}'
local STOPPED = '{"type":"WorkerDied","message":"its worker stopped while it ran"}'
local deadline = tonumber(redis.call('ZSCORE', workers, session) or nil)
-- the clock is not read, because it may have been set: a session that has beaten again has another deadline; 0: being recovered
if not gone and deadline and deadline ~= 0 and deadline ~= tonumber(ended) then return {0, 0} end
redis.call('ZREM', workers, session)
-- an offer that it has not confirmed
local offered = -(redis.call('ZSCORE', idle_workers, channel) or 0)
redis.call('ZREM', idle_workers, channel)

-- What becomes of a delivery: what to note in `tries` (nil: what is there stays; false: also, and it did not begin), and the error,
-- if the job is dead by it.
local function fate(token, record)
  -- a process that was seen to die may have died of it; one that froze has not seen it
  if not gone and tonumber(string.match(token, ' (%d+) ~$')) == offered then return false end
  local attempts, most = string.match(record, '^%d,(%d+)/?(%d*)')
  most = tonumber(most)
  -- a record that cannot be read is not handed out again
  if attempts and not most and not died then return nil end
  local tried, crashes = crashed(token)
  local attempt = tonumber(string.match(tried, '^%d+'))
  local how = not died and 'stopped' or 'died'
  if most and attempt >= most then
    return tried, 'its worker ' .. how .. ' while it ran, and it was delivered ' .. attempt .. ' of at most ' .. most .. ' times'
  end
  if not attempts or (not most and crashes >= most_crashes) then
    return tried, 'its worker ' .. how .. ' ' .. crashes .. ' times while it ran'
  end
  return tried
end

-- Some of what it held, about `count`, as {id, token, ...}; none only when there is none. A scan gives up after so many empty
-- places, and where it begins earlier calls may have left nothing else.
local function held_jobs(count)
  local step = {'0'}
  repeat
    step = redis.call('HSCAN', run, step[1], 'COUNT', count)
  until #step[2] > 0 or step[1] == '0'
  return step[2]
end

local had = redis.call('HLEN', run)
local held = held_jobs(300)
local fits = rules[10] and allowance(noted and job_notes)
local tokens, ids = {}, {}
for at = 1, #held, 2 do
  ids[#ids + 1] = held[at]
  tokens[held[at]] = held[at + 1]
end
table.sort(ids, function(one, other) return one > other end) -- each goes to the front of its list
local back, outcomes, buried, cancelled, freed, reply = 0, {}, 0, 0, 0, {0, 0}
for _, id in ipairs(ids) do
  if fits and not fits(id) then break end
  local token, record = tokens[id], redis.call('HGET', jobs, id)
  if record then
    local special = string.find(token, '^[%d/]+%*')
    local mark = noted and redis.call('HGET', job_notes, id)
    local tried, problem = fate(token, record)
    if mark and string.sub(mark, 1, 1) == '1' then
      close_note(id, mark, outcomes)
      redis.call('HDEL', tries, id)
      redis.call('HDEL', jobs, id)
      outcomes[#outcomes + 1] = id
      outcomes[#outcomes + 1] = ending('c', tried == false and '' or tried or token, record)
      keep_ended(id, 'c', tried == false and '0' or token, record, session)
      forget_timelines({id})
      count_job(record, 'c')
      cancelled = cancelled + 1
      if special then
        freed = freed + left(id, record, true) - 1
        flow_ended(id, record, 'c', '')
      end
    elseif problem then
      problem = '{"type":"WorkerDied","message":"' .. problem .. '"}'
      bury(id, tried, problem)
      note_attempt(id, token, 'k', problem, session)
      outcomes[#outcomes + 1] = id
      outcomes[#outcomes + 1] = 'f' .. problem
      count_job(record, 'd')
      buried = buried + 1
      for _, part in ipairs({id, tried, string.sub(record, 1, HEAD), problem}) do reply[#reply + 1] = part end
      if special then
        freed = freed + left(id, record, true) - 1
        flow_ended(id, record, 'f', problem)
      end
    else
      if tried then redis.call('HSET', tries, id, tried) end
      if tried then note_attempt(id, token, 'k', died and DIED or STOPPED, session) end
      if special then
        left(id, record, false)
        admit(id, record, token)
      else
        redis.call('LPUSH', ready_key(record), id)
      end
      back = back + 1
    end
  end
  redis.call('HDEL', run, id)
end
carry_on(outcomes, window)
conclude(outcomes, window)
save_history()
local moved = back + buried + cancelled
if moved > 0 and died then redis.call('HINCRBY', stats, 'recovered', moved) end
local rest = redis.call('HLEN', run)
count_freed(had - rest)
-- should the caller die now, others find a session that is overdue, and go on; with 0 it cannot come back
if rest > 0 then redis.call('ZADD', workers, 0, session) end
wake(moved + freed)
reply[1], reply[2] = back, rest
return reply
