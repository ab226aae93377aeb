-- Schedules of a queue. Fields of the hash: d<name> definition, r<name> record, s<name> state; l: the clock of
-- declarations (ms), t: when it was last read.
-- KEYS: schedules: hash, seen: zset
-- ms: longest step of the clock of declarations; the server deletes an undeclared definition after this time
local TURN, LEASE, KEPT = 20000, 60000, 86400000
-- fields of a state; times are in ms
local DIGEST, TIMING, CURSOR, PAUSED, JOB, SLOT, ENQUEUED, OVERLAPPED, MISSED = 1, 2, 3, 4, 5, 6, 7, 8, 9

local function load(name)
  local state = redis.call('HGET', schedules, 's' .. name)
  if not state then return nil end
  -- an unreadable state counts as missing: it is declared again, and other schedules continue
  local fine, fields = pcall(cmsgpack.unpack, state)
  return fine and type(fields) == 'table' and #fields == MISSED and fields or nil
end

local function save(name, state)
  redis.call('HSET', schedules, 's' .. name, cmsgpack.pack(state))
end
