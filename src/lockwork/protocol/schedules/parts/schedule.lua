-- Schedules of a queue: of code in `schedules`, created at run time in `created`. Fields of both hashes: d<name>
-- definition, r<name> record, s<name> state. Only in `schedules`, l: the clock of declarations (ms), t: when it was
-- last read.
-- KEYS: schedules: hash, seen: zset, created: hash
-- ms: longest step of the clock of declarations; the server deletes an undeclared definition after this time
local TURN, LEASE, KEPT = 20000, 60000, 86400000
-- fields of a state; times are in ms
local DIGEST, TIMING, CURSOR, PAUSED, JOB, SLOT, ENQUEUED, OVERLAPPED, MISSED = 1, 2, 3, 4, 5, 6, 7, 8, 9

-- Return the state of a schedule, from one of the two hashes.
local function load(hash, name)
  local state = redis.call('HGET', hash, 's' .. name)
  if not state then return nil end
  -- an unreadable state counts as missing: it is declared again, and other schedules continue
  local fine, fields = pcall(cmsgpack.unpack, state)
  return fine and type(fields) == 'table' and #fields == MISSED and fields or nil
end

-- Return the state of a schedule and its hash.
local function find(name)
  local known = load(created, name)
  if known then return known, created end
  return load(schedules, name), schedules
end

local function save(hash, name, state)
  redis.call('HSET', hash, 's' .. name, cmsgpack.pack(state))
end

-- Return true if the code of a live process has the schedule.
local function is_declared(name)
  local declared = tonumber(redis.call('ZSCORE', seen, name) or nil)
  return declared and tonumber(redis.call('HGET', schedules, 'l') or 0) - declared < LEASE
end
