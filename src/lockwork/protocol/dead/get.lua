-- Reads a dead job completely.
-- Flags: no-writes
-- KEYS: dead, jobs, errors, tries
-- ARGV: id
-- Reply: {now ms, problem, then, if it is dead: id, time, attempts as in `tries`, bytes of its record or -1 without
--   one, record, error}
-- include: now
-- include: stored
local died = redis.call('ZSCORE', dead, id)
if not died then return {math.floor(now / 1000), ''} end
local size = weight(jobs, id)
local record = field(jobs, id, size)
if record == '' and ask('HEXISTS', jobs, id) ~= 1 then size = -1 end
local fault = field(errors, id, weight(errors, id))
local attempts = ask('HGET', tries, id) or ''
return {math.floor(now / 1000), problem, id, died, attempts, size, record, fault}
