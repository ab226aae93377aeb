-- Gives back the jobs of a worker session that is over; one that used up its deliveries goes to the dead set.
-- KEYS: jobs, ready:0, ready:1, ready:2, due, idle, stats, results:0, results:1, tries, run, dead, errors, watch, workers,
--   lines, books, sleeping, ring:0, ring:1, ring:2, notes, expiry, flows
-- ARGV: window ms, session, 1 when the caller knows that the session's process is gone; else its deadline as a beat found it overdue
-- Reply: {jobs given back or buried, jobs left for the next call}, or {0, 0} when the session lives
-- Invariants: a session that is not over keeps its jobs; afterwards its tokens settle nothing; one with jobs left is in workers
-- include: now
-- include: push
local tries, run, dead, errors, watch, workers = KEYS[10], KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local results, older = KEYS[8], KEYS[9]
local notes, expiry, flows = KEYS[22], KEYS[23], KEYS[24]
-- include: finish
local noted = redis.call('HLEN', notes) > 0
touch('ZCARD', 23, 23)
touch('HLEN', 24, 24)
redis.call('HDEL', KEYS[1], '') -- a script that has deleted may go on writing when the server is out of memory
local lines, books, sleeping, rings = KEYS[16], KEYS[17], KEYS[18], 19
touch('ZCARD', 15, 15)
-- include: lines
-- include: flows
-- include: held
local session = ARGV[2]
local deadline = tonumber(redis.call('ZSCORE', workers, session) or nil)
-- no look at the clock, which may have been set since: who has beaten again has another deadline; at 0 it is being recovered
if ARGV[3] ~= '1' and deadline and deadline ~= 0 and deadline ~= tonumber(ARGV[4]) then return {0, 0} end
redis.call('ZREM', workers, session)

local had = redis.call('HLEN', run)
local held = held_jobs(run, 500)
local moved, outcomes, buried, cancelled, freed = 0, {}, 0, 0, 0
local fits = rules[10] and allowance(noted and notes)
for at = 1, #held, 2 do
  local id, token = held[at], held[at + 1]
  if fits and not fits(id) then break end
  local attempt = tonumber(string.match(token, '^%d+'))
  local record = redis.call('HGET', jobs, id)
  if record then
    local special = string.find(token, '^%d+%*')
    local mark = noted and redis.call('HGET', notes, id)
    -- a record that cannot be read is not handed out again
    if mark and string.sub(mark, 1, 1) == '1' then
      close_note(id, mark, outcomes)
      redis.call('HDEL', tries, id)
      redis.call('HDEL', jobs, id)
      outcomes[#outcomes + 1] = id
      outcomes[#outcomes + 1] = ending('c', attempt, record)
      cancelled = cancelled + 1
      if special then
        freed = freed + left(id, record, true) - 1
        flow_ended(id, record, 'c', '')
      end
    elseif attempt >= tonumber(string.match(record, '^%d,(%d+)') or 0) then
      local problem = '{"type":"WorkerDied","message":"its worker died ' .. attempt .. ' times while it ran"}'
      bury(id, attempt, problem)
      outcomes[#outcomes + 1] = id
      outcomes[#outcomes + 1] = 'f' .. problem
      buried = buried + 1
      if special then
        freed = freed + left(id, record, true) - 1
        flow_ended(id, record, 'f', problem)
      end
    else
      redis.call('HSET', tries, id, attempt)
      if special then
        left(id, record, false)
        admit(id, record, token)
      else
        redis.call('LPUSH', ready_key(record), id)
      end
    end
    moved = moved + 1
  end
  redis.call('HDEL', run, id)
end
carry_on(outcomes, tonumber(ARGV[1]))
conclude(outcomes, tonumber(ARGV[1]))
if moved > 0 then redis.call('HINCRBY', stats, 'recovered', moved) end
if buried > 0 then
  redis.call('HINCRBY', stats, 'dead', buried)
  redis.call('HINCRBY', stats, 'failed', buried)
end
if cancelled > 0 then redis.call('HINCRBY', stats, 'cancelled', cancelled) end
local rest = redis.call('HLEN', run)
count_freed(had - rest)
-- should the caller die now, others find a session that is overdue, and go on; with 0 it cannot come back
if rest > 0 then redis.call('ZADD', workers, 0, session) end
wake(moved + freed)
return {moved, rest}
