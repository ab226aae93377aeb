-- Lets a holder keep some of its units, and hands the rest to the next live waiters in the same step.
-- KEYS: permits
-- ARGV: owner, fence, units to keep
-- Reply: 1 it has no more than these now; 0 the grant is over
-- Invariants: only the grant with this fence shrinks; its deadline and its fence stay
-- include: now
redis.call('HDEL', KEYS[1], '') -- a script that has deleted may go on writing when the server is out of memory
-- include: permits
-- include: permits_line
local held = holder(ARGV[2])
if not held or held[2] ~= ARGV[1] or held[1] <= now then return 0 end
local kept = math.min(held[4], tonumber(ARGV[3]))
used, held[4], held[6] = used - held[4] + kept, kept, nil
redis.call('HSET', books, 'g' .. ARGV[2], cmsgpack.pack(held))
if line.count > 0 then
  sweep()
  serve('')
end
save()
return 1
