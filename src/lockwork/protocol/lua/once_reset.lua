-- Forgets the period: the next caller runs it, even while an earlier run goes on, whose result is not kept.
-- KEYS: once
-- ARGV: request
-- Reply: 1
-- Invariants: a request resets once; the fence goes on rising
-- include: now
-- include: once
redis.call('HDEL', once, '') -- a script that has deleted may go on writing when the server is out of memory
if found[4] and not known('z', ARGV[1]) then
  redis.call('HDEL', once, 's', 'o', 'q', 'd', 'e', 'v')
  wake()
  remember('z', ARGV[1])
  keep(now)
end
return 1
