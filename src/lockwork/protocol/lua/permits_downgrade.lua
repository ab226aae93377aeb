-- Lets a holder keep some of its units, and hands the rest to the next live waiters in the same step.
-- KEYS: permits
-- ARGV: owner, fence, keep: number
--   keep: units to keep
-- Out of memory: goes on
-- Reply: 1 it has no more than these now; 0 the grant is over
-- Invariants: only the grant with this fence shrinks; its deadline and its fence stay
-- include: now
-- include: permits
-- include: permits_line
local held = holder(fence)
if not held or held[2] ~= owner or held[1] <= now then return 0 end
local kept = math.min(held[4], keep)
used, held[4], held[6] = used - held[4] + kept, kept, nil
redis.call('HSET', permits, 'g' .. fence, cmsgpack.pack(held))
if line.count > 0 then
  sweep()
  serve('')
end
save()
return 1
