-- Begins a new round, in any state of the last; waiters keep waiting.
-- KEYS: <synchronizers/latch>
-- ARGV: size: number, ttl: number, request
--   size: the latch's count; ttl: ms
-- Reply: 1
-- Invariants: a request resets once
-- include: now
-- include: synchronizers/latch
if is_known(latch, 'q', request) then return 1 end
begin_round(size, ttl)
remember(latch, 'q', request)
return 1
