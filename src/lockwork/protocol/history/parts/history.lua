-- History of ended jobs, and of failed attempts.
--   history: id → row (history/parts/row.lua); history_order: ids by end time (us)
--   timelines: id → MessagePack list of its last failed attempts: [number, started us, ended us, session,
--     letter, type of the error, its text]; letter: f failed, k its process died; o: the last attempt of a succeeded
--     job that ignored its time-out
--   stats: history: number of jobs to keep, or `NUMBERms` for a time, or 0; history_full: time (us) when the budget of
--     successes would be unused again; left_out: successes that exceeded the budget
-- KEYS: stats, history: hash, history_order: zset, timelines: hash
-- include: now
local stored_bound, successes_unused_at = unpack(redis.call('HMGET', stats, 'history', 'history_full'))
local history_bound, history_unit
local function read_history_bound(bound)
  history_bound, history_unit = string.match(bound or '', '^(%d+)(%a*)$')
  history_bound = tonumber(history_bound or 10000)
end
read_history_bound(stored_bound)
local any_timeline = redis.call('HLEN', timelines) > 0
local history_rows = {}
local SUCCESS_US, SUCCESS_BURST, FEWEST = 5000, 200, 20 -- history stores one success per SUCCESS_US, in bursts

-- Return the type and the text of a stored error as MessagePack, from a cache, because many jobs fail in the same way.
local packed_error
do -- a script has at most 200 locals
  local last_problem, last_packed

  -- Return the type and the text, without the traceback.
  local function error_parts(problem)
    local trace = string.find(problem, ',"traceback":"', 1, true)
    local head = trace and string.sub(problem, 1, trace - 1) .. '}' or problem
    local fine, fields = pcall(cjson.decode, head)
    if not fine or type(fields) ~= 'table' then return '', string.sub(problem, 1, 300) end
    local kind, text = fields.type, fields.message
    return type(kind) == 'string' and string.sub(kind, 1, 100) or '', type(text) == 'string' and string.sub(text, 1, 300) or ''
  end

  function packed_error(problem)
    if problem ~= last_problem then last_problem, last_packed = problem, cmsgpack.pack(error_parts(problem)) end
    return last_packed
  end
end

-- Append an attempt to a timeline, which keeps the last ten. The first byte of a timeline is its length.
local function appended(timeline, attempt)
  local count = (string.byte(timeline or '') or 144) - 144
  local others = count > 0 and count <= 10 and string.sub(timeline, 2) or ''
  if others == '' then count = 0 end
  if count == 10 then
    local fine, behind = pcall(cmsgpack.unpack_one, others)
    count, others = 9, fine and string.sub(others, behind + 1) or ''
    if not fine then count = 0 end
  end
  return string.char(145 + count) .. others .. attempt
end

-- Return an attempt in the form of the timeline.
local function packed_attempt(token, letter, problem, session)
  local number, started = string.match(token, '^(%d+)[^ ]* (%d+)')
  return '\151' .. cmsgpack.pack(tonumber(number) or 0, tonumber(started) or 0, now, session, letter) .. packed_error(problem)
end

-- Record a failed delivery (f), or the death of its process (k).
local function note_attempt(id, token, letter, problem, session)
  local attempt = packed_attempt(token, letter, problem, session)
  redis.call('HSET', timelines, id, appended(any_timeline and redis.call('HGET', timelines, id), attempt))
  any_timeline = true
end

-- Record the end of a job. It was leased with this token, or not leased since it has this entry in `tries`. `overran`:
-- it succeeded, but ignored its time-out.
local function keep_ended(id, letter, token, record, session, overran)
  if history_bound == 0 then return end
  local number, started = string.match(token, '^(%d*)[^ ]* ?(%d*)')
  local timeline = any_timeline and redis.call('HGET', timelines, id) or '\144'
  history_rows[#history_rows + 1] = id
  history_rows[#history_rows + 1] = '\151'
    .. cmsgpack.pack(letter, tonumber(number) or 0, tonumber(started) or 0, started ~= '' and session or '',
      string.sub(record, 1, 1024), #record)
    .. (overran and appended(timeline, packed_attempt(token, 'o', '{}', session)) or timeline)
end

-- Return how many successes fit in the budget now.
local function success_budget()
  if history_bound == 0 then return 0 end
  local unused_at = tonumber(successes_unused_at or 0)
  if unused_at > now then unused_at = now end -- the clock was set back
  local free = math.min(SUCCESS_BURST, math.floor((now - unused_at) / SUCCESS_US))
  return free >= FEWEST and free or 0
end

-- Store the successes {id, token, ...}, up to the budget. Their records still exist.
local function keep_successes(sample, count, session)
  if history_bound == 0 or count == 0 then return end
  local ids = {}
  for at = 1, #sample, 2 do ids[#ids + 1] = sample[at] end
  if #ids > 0 then
    for at, record in ipairs(redis.call('HMGET', jobs, unpack(ids))) do
      keep_ended(ids[at], 's', sample[2 * at], record or '', session)
    end
    local unused_at = math.max(math.min(tonumber(successes_unused_at or 0), now), now - SUCCESS_BURST * SUCCESS_US)
    redis.call('HSET', stats, 'history_full', string.format('%.0f', unused_at + #ids * SUCCESS_US))
  end
  if count > #ids then redis.call('HINCRBY', stats, 'left_out', count - #ids) end
end

local function forget_timelines(ids)
  if any_timeline and #ids > 0 then redis.call('HDEL', timelines, unpack(ids)) end
end

-- Change the number of jobs to keep, or the time; '' is the default.
local function set_history_bound(bound)
  if bound ~= (stored_bound or '') then
    if bound == '' then redis.call('HDEL', stats, 'history') else redis.call('HSET', stats, 'history', bound) end
  end
  read_history_bound(bound)
end

-- Delete up to `most` jobs beyond the limit, oldest first. Return how many were deleted.
local function trim_history(most)
  local ids
  if history_unit == 'ms' then
    local oldest = string.format('(%.0f', now - history_bound * 1000)
    ids = redis.call('ZRANGEBYSCORE', history_order, '-inf', oldest, 'LIMIT', 0, most)
  else
    local over = math.min(most, redis.call('ZCARD', history_order) - history_bound)
    ids = over > 0 and redis.call('ZRANGE', history_order, 0, over - 1) or {}
  end
  if #ids > 0 then
    redis.call('ZREM', history_order, unpack(ids))
    redis.call('HDEL', history, unpack(ids))
  end
  return #ids
end

-- Write the rows that this call has collected.
local function save_history()
  if #history_rows == 0 then return end
  for from = 1, #history_rows, 1000 do
    local last = math.min(from + 999, #history_rows)
    local scores = {}
    for at = from, last, 2 do
      scores[#scores + 1] = string.format('%.0f', now)
      scores[#scores + 1] = history_rows[at]
    end
    redis.call('HSET', history, unpack(history_rows, from, last))
    redis.call('ZADD', history_order, unpack(scores))
  end
  trim_history(#history_rows / 2 + 100)
end
