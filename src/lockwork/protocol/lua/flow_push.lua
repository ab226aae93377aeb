-- Enqueues a flow, in one call or several: what the calls before the last one store cannot be seen.
-- KEYS: jobs, ready:0, ready:1, ready:2, due, idle, stats, results:0, results:1, tries, notes, dead, errors, watch, expiry,
--   withdrawn, kept, workers, lines, books, sleeping, ring:0, ring:1, ring:2, flows
-- ARGV: again (1: an earlier try may have been applied), window ms, flow, how many jobs, 1 in the first call, 1 in the last call, then
--   in the last call what is its own result and the jobs that wait for nobody, then for each job: number, record, delay ms, for how many
--   it waits, its children, policy, record of its compensation ('' for each that it has not); lists are MessagePack
-- Reply: 1; 0 when it was not stored to its end in time (nothing of it will run); {waiting, size}, to the first call, when the
--   queue has no room for all of it, and nothing was stored
-- Invariants: nothing runs before all is stored; what is stored and never runs is forgotten after 10 minutes
redis.call('HINCRBY', KEYS[7], 'enqueued', 0) -- refused, as all enqueueing, when the server is out of memory
-- include: now
-- include: control
local all = of_flows()
local STATE, STORED = all.STATE, all.STORED
local flow, total, first, last = ARGV[3], tonumber(ARGV[4]), ARGV[5] == '1', ARGV[6] == '1'
local book = all.book(flow)
if not book then
  if not first then return 0 end
  local no_room = total > 0 and crowded(total, dead)
  if no_room then return no_room end
  book = all.begin(flow, total)
  redis.call('ZADD', expiry, -math.floor(now / 1000) - 600000, 'flow ' .. flow)
end
if book[STATE] == 'x' then return 0 end
if book[STATE] ~= 'b' then return 1 end -- sent again
for at = last and 9 or 7, #ARGV, 7 do
  local number = ARGV[at]
  if redis.call('HSETNX', jobs, all.job(flow, number), ARGV[at + 1]) == 1 then book[STORED] = book[STORED] + 1 end
  weigh(ARGV[at + 1])
  redis.call('HSET', flows, flow .. ' w' .. number, ARGV[at + 3])
  for offset, letter in pairs({[2] = 'l', [4] = 'k', [5] = 'p', [6] = 'x'}) do
    if ARGV[at + offset] ~= '' then redis.call('HSET', flows, flow .. ' ' .. letter .. number, ARGV[at + offset]) end
  end
end
if not last then
  redis.call('HSET', flows, flow, cmsgpack.pack(book))
  return 1
end
if book[STORED] < total then return 0 end
redis.call('HSET', flows, flow .. ' a', ARGV[7], flow .. ' k0', ARGV[8])
if total > 0 then redis.call('HINCRBY', flows, '#', total) end
redis.call('HINCRBY', stats, 'enqueued', total)
redis.call('ZREM', expiry, 'flow ' .. flow)
book[STATE] = 'r'
all.todo[flow] = {0, 1}
carry_on({}, tonumber(ARGV[2]))
return 1
