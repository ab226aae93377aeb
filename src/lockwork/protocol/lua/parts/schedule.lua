-- Schedules of a queue.
-- In the hash: d<name> definition, r<name> record, s<name> state; l ms that the clock of declarations has gone, t when it was read last
-- KEYS: schedules: hash, seen: zset
-- ms: longest step of the clock of declarations; after how much of it a definition that no process declares is deleted
local TURN, LEASE, KEPT = 20000, 60000, 86400000
-- a state's fields; times are ms
local DIGEST, TIMING, CURSOR, PAUSED, JOB, SLOT, ENQUEUED, OVERLAPPED, MISSED = 1, 2, 3, 4, 5, 6, 7, 8, 9

local function load(name)
  local state = redis.call('HGET', schedules, 's' .. name)
  if not state then return nil end
  -- one that cannot be read is as none: it is declared anew, and the others go on
  local fine, fields = pcall(cmsgpack.unpack, state)
  return fine and type(fields) == 'table' and #fields == MISSED and fields or nil
end

local function save(name, state)
  redis.call('HSET', schedules, 's' .. name, cmsgpack.pack(state))
end
