-- Grants the lock, or gives the caller a place in the waiting line, or refuses; called again, it refreshes either.
-- KEYS: lock
-- ARGV: owner, request, lease ms, claim ms, 1 to wait or 0, channel
-- Reply: {1, fence, deadline us, now us} granted; {0, check ms, now us} not granted, look again after that time
-- Invariants: no grant while another deadline lies ahead; the fence rises; the line is served in order
-- include: now
-- include: line
-- include: ask
return ask(ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], ARGV[6])
