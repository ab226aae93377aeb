-- Reads all of one dead job.
-- KEYS: dead, jobs, errors, tries
-- ARGV: id
-- Reply: {now ms, problem, then, if it is dead: id, time, attempts as in `tries`, bytes of its record or -1 (it has none), record, error}
-- include: now
-- include: stored
local died = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not died then return {math.floor(now / 1000), ''} end
local size = weight(KEYS[2], ARGV[1])
local record = field(KEYS[2], ARGV[1], size)
if record == '' and ask('HEXISTS', KEYS[2], ARGV[1]) ~= 1 then size = -1 end
local fault = field(KEYS[3], ARGV[1], weight(KEYS[3], ARGV[1]))
local attempts = ask('HGET', KEYS[4], ARGV[1]) or ''
return {math.floor(now / 1000), problem, ARGV[1], died, attempts, size, record, fault}
