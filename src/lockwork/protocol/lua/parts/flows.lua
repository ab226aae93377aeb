-- Flows: jobs that wait until others have ended. The header of such a job ends with `>`; its id is FLOW.NUMBER, that of a compensation
-- FLOW.NUMBERu. A script that ends jobs says so with flow_ended, and calls carry_on before it returns.
--   flows: `#` how many jobs wait for others. Of the flow F: `F` its book, `F a` whose results are its own, `F t` what is left to
--     do, {number, position, ...}: of that job's children, from this position on; -1: cancel its jobs
--   of its job N: `F kN` its children, those of job 0 wait for nobody; `F wN` for how many it waits, or would if it
--     had not been cancelled; `F rN` how it ended: s and its result, f and its error, c and the number of the job whose failure it
--     was; `F lN` its delay; `F pN` its policy, i(gnore) or u(ndo); `F xN` the record of its compensation; `F yN` the Nth that
--     succeeded and has one
-- A book: state (b: being stored, r: runs, u: compensations run, e: ended, g: being forgotten, x: the same, never run), jobs,
-- stored, succeeded, failed, cancelled, the first failure or 0, 1 to cancel, 1 to compensate, compensations to come, the one
-- under way or 0, done, failed
-- KEYS: jobs, due, stats, watch, tries, notes, expiry, books, flows: hash
-- include: push
-- include: finish
-- include: lines
local function flow_engine()
  local STATE, TOTAL, STORED, SUCCEEDED, FAILED, CANCELLED, BAD = 1, 2, 3, 4, 5, 6, 7
  local STOP, UNDO, TOP, UNDOING, UNDONE, LOST = 8, 9, 10, 11, 12, 13
  local STEPS = 150 -- jobs that are moved or cancelled in one call
  local flow_books, flow_todo, flow_running = {}, {}, {}
  local dropped = 0 -- bytes of the records of those that this call has cancelled

  local function flow_of(id, record)
    if not string.find(record, '^[012],[%d/]+,[^,;]*,[^,;]*,[^;]*>;') then return nil end
    local flow, number, undo = string.match(id, '^(.+)%.(%d+)(u?)$')
    return flow, tonumber(number), undo == 'u'
  end

  local function flow_get(flow, letter, number)
    return redis.call('HGET', flows, flow .. ' ' .. letter .. number)
  end

  local function flow_job(flow, number)
    return string.format('%s.%05d', flow, number)
  end

  -- One that cannot be read is as none: its jobs go on, and others too.
  local function flow_read(field)
    local packed = redis.call('HGET', flows, field)
    if not packed then return false end
    local fine, found = pcall(cmsgpack.unpack, packed)
    return fine and type(found) == 'table' and found
  end

  local function flow_book(flow)
    if flow_books[flow] == nil then
      flow_books[flow] = flow_read(flow)
      flow_todo[flow] = flow_read(flow .. ' t') or {}
    end
    return flow_books[flow]
  end

  local function flow_begin(flow, total)
    flow_books[flow] = {'b', total, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
    flow_todo[flow] = {}
    return flow_books[flow]
  end

  local function unblocked()
    if redis.call('HINCRBY', flows, '#', -1) <= 0 then redis.call('HDEL', flows, '#') end
  end

  -- A job has ended, for the first time; one that is run again by hand changes nothing.
  local function flow_mark(flow, book, number, letter, value)
    if redis.call('HSETNX', flows, flow .. ' r' .. number, letter .. value) == 0 then return end
    if redis.call('HEXISTS', flows, flow .. ' w' .. number) == 1 then unblocked() end
    if letter == 's' then
      book[SUCCEEDED] = book[SUCCEEDED] + 1
      if redis.call('HEXISTS', flows, flow .. ' x' .. number) == 1 then
        book[TOP] = book[TOP] + 1
        redis.call('HSET', flows, flow .. ' y' .. book[TOP], number)
      end
    else
      local count, policy = letter == 'f' and FAILED or CANCELLED, flow_get(flow, 'p', number)
      book[count] = book[count] + 1
      if letter == 'f' or value == '' then
        if policy ~= 'i' and book[BAD] == 0 then book[BAD] = number end
        if policy == 'u' then book[UNDO] = 1 end
      end
    end
    if redis.call('HEXISTS', flows, flow .. ' k' .. number) == 1 then
      local todo = flow_todo[flow]
      todo[#todo + 1] = number
      todo[#todo + 1] = 1
    end
  end

  -- A job has ended; letter s: succeeded, value is its result; f: failed, value is the error; c: cancelled.
  local function flow_ended(id, record, letter, value)
    local flow, number, undo = flow_of(id, record)
    local book = flow and flow_book(flow)
    if not book or (book[STATE] ~= 'r' and book[STATE] ~= 'u') then return end
    if not undo then return flow_mark(flow, book, number, letter, value) end
    if book[UNDOING] ~= number then return end
    book[UNDOING] = 0
    local count = letter == 's' and UNDONE or LOST
    book[count] = book[count] + 1
  end

  -- One of those that it waits for has ended; it is counted although the job was cancelled meanwhile, because somebody may
  -- run it again. Returns how many may run for it.
  local function flow_release(flow, book, number)
    local field = flow .. ' w' .. number
    if redis.call('HEXISTS', flows, field) == 0 or redis.call('HINCRBY', flows, field, -1) > 0 then return 0 end
    local id = flow_job(flow, number)
    local waits = redis.call('HEXISTS', jobs, id) == 1
    if waits then
      unblocked()
      redis.call('ZADD', due, moment(flow_get(flow, 'l', number) or 0), id)
    else
      flow_mark(flow, book, number, 'c', '') -- if it was deleted by hand
    end
    redis.call('HDEL', flows, field)
    return waits and 1 or 0
  end

  -- Whether a job that was cancelled while it waited for others would still have to wait.
  local function flow_holds(id)
    local flow, number = string.match(id, '^(.+)%.(%d+)$')
    local book = flow_book(flow)
    if book and (book[STATE] == 'b' or book[STATE] == 'r') then return true end
    redis.call('HDEL', flows, flow .. ' w' .. tonumber(number)) -- all have ended, and nobody counts any more
    return false
  end

  -- Cancel a job that has not begun; `cause`: the number of the one that failed, or ''.
  local function flow_drop(flow, book, number, cause, outcomes)
    local id = flow_job(flow, number)
    local record = redis.call('HGET', jobs, id)
    if record then
      local reason = cause ~= '' and '>' .. flow_job(flow, cause) or ''
      outcomes[#outcomes + 1] = id
      outcomes[#outcomes + 1] = 'c' .. attempts(redis.call('HGET', tries, id)) .. reason .. ';' .. record
      dropped = dropped + #record
      redis.call('HDEL', jobs, id)
      redis.call('HDEL', tries, id)
      redis.call('HDEL', notes, id)
      redis.call('ZREM', expiry, id)
      redis.call('ZREM', due, id)
      leave_lines(id, record)
      redis.call('HINCRBY', stats, 'cancelled', 1)
    end
    flow_mark(flow, book, number, 'c', cause)
  end

  -- Cancel a job of a flow that is cancelled, wherever it is.
  local function flow_stop(flow, book, number, outcomes)
    local id = flow_job(flow, number)
    if redis.call('HEXISTS', flows, flow .. ' r' .. number) == 1 then return end
    local waits = redis.call('HEXISTS', flows, flow .. ' w' .. number) == 1 or redis.call('ZSCORE', due, id)
      or redis.call('HEXISTS', books, '@ ' .. id) == 1 or redis.call('HEXISTS', jobs, id) == 0
    if waits then return flow_drop(flow, book, number, '', outcomes) end
    redis.call('HSET', notes, id, '1' .. string.sub(redis.call('HGET', notes, id) or '0', 2))
    flow_running[#flow_running + 1] = id
  end

  -- Deal with the children of a job that has ended, from a position on; returns where to go on, or nil, and how many were moved.
  local function flow_pass(flow, book, number, position, left, outcomes)
    local children = number >= 0 and (flow_read(flow .. ' k' .. number) or {})
    local count, moved = children and #children or book[TOTAL], 0
    local blob = number > 0 and flow_get(flow, 'r', number) or 's'
    local letter, cause = string.sub(blob, 1, 1), number
    if letter == 'c' and #blob > 1 then cause = tonumber(string.sub(blob, 2)) end
    local passes = letter == 's' or flow_get(flow, 'p', number) == 'i'
    local next_one = math.min(count, position + left - 1) + 1
    for at = position, next_one - 1 do
      if dropped > BYTES then
        next_one = at
        break
      end
      if not children then
        flow_stop(flow, book, at, outcomes)
      else
        if not passes and redis.call('HEXISTS', flows, flow .. ' w' .. children[at]) == 1 then
          flow_drop(flow, book, children[at], cause, outcomes)
        end
        moved = moved + flow_release(flow, book, children[at])
      end
    end
    return next_one <= count and next_one or nil, moved, next_one - position
  end

  -- Run the next compensation, the latest success first; false when there is none.
  local function flow_undo(flow, book)
    while book[TOP] > 0 do
      local number = tonumber(flow_get(flow, 'y', book[TOP]))
      redis.call('HDEL', flows, flow .. ' y' .. book[TOP])
      book[TOP] = book[TOP] - 1
      local record = number and flow_get(flow, 'x', number)
      if record then
        local id = flow_job(flow, number) .. 'u'
        redis.call('HSET', jobs, id, record)
        redis.call('ZADD', due, math.floor(now / 1000), id)
        redis.call('HINCRBY', stats, 'enqueued', 1)
        book[UNDOING] = number
        return true
      end
    end
    return false
  end

  local function flow_tell(flow)
    local channels = redis.call('HGET', watch, flow)
    if not channels then return end
    redis.call('HDEL', watch, flow)
    for channel in string.gmatch(channels, '[^%s\1]+') do publish(channel, flow) end
  end

  -- What the ends of jobs mean for their flows, as far as one call goes; the rest is due at once, like a job that expires.
  -- Jobs that are cancelled for it come to the outcomes.
  local function carry_on(outcomes, window)
    local left, released, before = STEPS, 0, #outcomes
    for flow, book in pairs(flow_books) do
      if book and (book[STATE] == 'r' or book[STATE] == 'u') then
        local todo, first = flow_todo[flow], 1
        while todo[first] and left > 0 and dropped <= BYTES do
          local goes_on, moved, steps = flow_pass(flow, book, todo[first], todo[first + 1], left, outcomes)
          released, left = released + moved, left - math.max(1, steps)
          if goes_on then todo[first + 1] = goes_on else first = first + 2 end
        end
        local rest = {}
        for at = first, #todo do rest[#rest + 1] = todo[at] end
        if book[STATE] == 'r' and book[SUCCEEDED] + book[FAILED] + book[CANCELLED] == book[TOTAL] then
          book[STATE], rest = 'u', {}
          if book[UNDO] == 0 then book[TOP] = 0 end
        end
        if #rest > 0 then
          redis.call('HSET', flows, flow .. ' t', cmsgpack.pack(rest))
          redis.call('ZADD', expiry, math.floor(now / 1000), 'flow ' .. flow)
        elseif #todo > 0 then
          redis.call('HDEL', flows, flow .. ' t')
          redis.call('ZREM', expiry, 'flow ' .. flow)
        end
        if book[STATE] == 'u' and book[UNDOING] == 0 then
          if flow_undo(flow, book) then
            released = released + 1
          else
            book[STATE] = 'e'
            redis.call('ZADD', expiry, -(math.floor(now / 1000) + window), 'flow ' .. flow)
            flow_tell(flow)
          end
        end
        redis.call('HSET', flows, flow, cmsgpack.pack(book))
        flow_todo[flow] = rest
      end
    end
    -- a key may have gone to another
    wake(released + (#outcomes > before and 1 or 0))
  end

  -- A flow that has left something to do: carry_on does it.
  local function flow_resume(flow)
    local book = flow_book(flow)
    local runs = book and (book[STATE] == 'r' or book[STATE] == 'u')
    if runs and flow_todo[flow][1] then return end
    redis.call('ZADD', expiry, -math.floor(now / 1000), 'flow ' .. flow) -- it has nothing to do: flow_sweep looks at it
  end

  -- Forget up to `most` jobs of a flow that ended long ago, or that nobody has stored to its end; returns how many those were, and
  -- their bytes.
  local function flow_sweep(flow, most)
    local book = flow_book(flow)
    if book and (book[STATE] == 'r' or book[STATE] == 'u') then
      redis.call('ZREM', expiry, 'flow ' .. flow)
      return 1, 0
    end
    local fields, ids, size = {flow .. ' a', flow .. ' t'}, {''}, 0
    local last = book and book[TOTAL] or 0
    local number, stop = last, math.max(-1, last - math.min(most, 200))
    while number > stop and size <= BYTES do
      for letter in string.gmatch('kwrlpxy', '%l') do fields[#fields + 1] = flow .. ' ' .. letter .. number end
      local id = flow_job(flow, number)
      ids[#ids + 1] = id
      size = size + redis.call('HSTRLEN', flows, flow .. ' r' .. number) + redis.call('HSTRLEN', jobs, id)
      number = number - 1
    end
    redis.call('HDEL', flows, unpack(fields))
    local never = book and (book[STATE] == 'b' or book[STATE] == 'x')
    if never then redis.call('HDEL', jobs, unpack(ids)) end
    if number >= 0 then
      book[STATE], book[TOTAL] = never and 'x' or 'g', number
      redis.call('HSET', flows, flow, cmsgpack.pack(book))
    else
      redis.call('HDEL', flows, flow)
      redis.call('ZREM', expiry, 'flow ' .. flow)
      flow_books[flow] = false
    end
    return last - number, size
  end

  return {begin = flow_begin, book = flow_book, todo = flow_todo, running = flow_running, job = flow_job, ended = flow_ended,
    carry_on = carry_on, resume = flow_resume, sweep = flow_sweep, holds = flow_holds, STATE = STATE, STORED = STORED, STOP = STOP}
end

-- Made when it is needed: most calls have no job of a flow.
local flow_made
local function of_flows()
  flow_made = flow_made or flow_engine()
  return flow_made
end

local function flow_ended(id, record, letter, value)
  if string.find(record, '>;', 1, true) then of_flows().ended(id, record, letter, value) end
end

local function carry_on(outcomes, window)
  if flow_made then flow_made.carry_on(outcomes, window) end
end
