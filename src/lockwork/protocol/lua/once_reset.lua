-- Forgets the period: the next caller runs it, even while an earlier run goes on, whose result is not kept.
-- KEYS: once
-- ARGV: asked
--   asked: the request
-- Out of memory: goes on
-- Reply: 1
-- Invariants: a request resets once; the fence goes on rising
-- include: now
-- include: once
if found[4] and not known(once, 'z', asked) then
  redis.call('HDEL', once, 's', 'o', 'q', 'd', 'e', 'v')
  wake()
  remember(once, 'z', asked)
  keep(now)
end
return 1
