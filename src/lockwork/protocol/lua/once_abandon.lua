-- Withdraws a request to run: its function has not begun, and will not.
-- KEYS: once
-- ARGV: asked
--   asked: the request
-- Out of memory: goes on
-- Reply: 1
-- Invariants: a run of another request stays; the request is not let run when it comes late
-- include: now
-- include: once
if found[1] == 'r' and request == asked then
  redis.call('HDEL', once, 's', 'o', 'q', 'd', 'e')
  wake()
  ends = now
end
if not known(once, 'x', asked) then remember(once, 'x', asked) end
keep(math.max(ends, deadline))
return 1
