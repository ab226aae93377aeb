-- Begins a new round, whatever the last one's state; those who wait, wait on.
-- KEYS: latch, log 0, log 1
-- ARGV: count, ttl ms, request
-- Reply: 1
-- Invariants: a request resets once
-- include: now
-- include: latch
if known('q', ARGV[3]) then return 1 end
begin(tonumber(ARGV[1]), tonumber(ARGV[2]))
remember('q', ARGV[3])
return 1
