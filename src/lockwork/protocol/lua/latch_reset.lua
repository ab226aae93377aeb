-- Begins a new round, whatever the last one's state; waiters go on waiting.
-- KEYS: <latch>
-- ARGV: size: number, ttl: number, request
--   size: the latch's count; ttl: ms
-- Reply: 1
-- Invariants: a request resets once
-- include: now
-- include: latch
if known(latch, 'q', request) then return 1 end
begin(size, ttl)
remember(latch, 'q', request)
return 1
