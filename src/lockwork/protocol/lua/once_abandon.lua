-- Withdraws a request to run: its function has not begun, and will not.
-- KEYS: once
-- ARGV: request
-- Reply: 1
-- Invariants: a run of another request stays; the request is not let run when it comes late
-- include: now
-- include: once
redis.call('HDEL', once, '') -- a script that has deleted may go on writing when the server is out of memory
if found[1] == 'r' and request == ARGV[1] then
  redis.call('HDEL', once, 's', 'o', 'q', 'd', 'e')
  wake()
  ends = now
end
if not known('x', ARGV[1]) then remember('x', ARGV[1]) end
keep(math.max(ends, deadline))
return 1
