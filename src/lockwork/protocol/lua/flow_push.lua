-- Enqueues a flow, in one call or several: what the calls before the last one store cannot be seen.
-- KEYS: <control>
-- ARGV: again: flag, window: number, flow, total: number, begins: flag, ends: flag, answer, roots,
--   (number, record, delay, waits, children, policy, undo)
--   again: an earlier try may have been applied; window: ms; total: how many jobs; begins, ends: the first, the last call
--   answer, roots: in the last call what is its own result, and the jobs that wait for nobody
--   waits: for how many it waits; undo: record of its compensation ('' for each that it has not); lists are MessagePack
-- Reply: 1; 0 when it was not stored to its end in time (nothing of it will run); {waiting, size}, to the first call, when the
--   queue has no room for all of it, and nothing was stored
-- Invariants: nothing runs before all is stored; what is stored and never runs is forgotten after 10 minutes
-- include: now
-- include: control
local all = of_flows()
local STATE, STORED = all.STATE, all.STORED
local book = all.book(flow)
if not book then
  if not begins then return 0 end
  local no_room = total > 0 and crowded(total, dead)
  if no_room then return no_room end
  book = all.begin(flow, total)
  redis.call('ZADD', expiry, -math.floor(now / 1000) - 600000, 'flow ' .. flow)
end
if book[STATE] == 'x' then return 0 end
if book[STATE] ~= 'b' then return 1 end -- sent again
for at = FIRST, #ARGV, STRIDE do
  local number, record, waits = ARGV[at], ARGV[at + 1], ARGV[at + 3]
  if redis.call('HSETNX', jobs, all.job(flow, number), record) == 1 then book[STORED] = book[STORED] + 1 end
  weigh(record)
  redis.call('HSET', flows, flow .. ' w' .. number, waits)
  for offset, letter in pairs({[2] = 'l', [4] = 'k', [5] = 'p', [6] = 'x'}) do
    if ARGV[at + offset] ~= '' then redis.call('HSET', flows, flow .. ' ' .. letter .. number, ARGV[at + offset]) end
  end
end
if not ends then
  redis.call('HSET', flows, flow, cmsgpack.pack(book))
  return 1
end
if book[STORED] < total then return 0 end
redis.call('HSET', flows, flow .. ' a', answer, flow .. ' k0', roots)
if total > 0 then redis.call('HINCRBY', flows, '#', total) end
redis.call('HINCRBY', stats, 'enqueued', total)
redis.call('ZREM', expiry, 'flow ' .. flow)
book[STATE] = 'r'
all.todo[flow] = {0, 1}
carry_on({}, window)
return 1
