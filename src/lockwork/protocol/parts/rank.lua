-- The rank of a member of a sorted set.

-- by bytes: how Lua compares strings depends on the server's locale
local function before(one, other)
  for at = 1, math.min(#one, #other) do
    local first, second = string.byte(one, at), string.byte(other, at)
    if first ~= second then return first < second end
  end
  return #one < #other
end

-- Return the number of members before this member, and itself if `with` is set. The member need not exist any more.
local function rank(key, score, id, with)
  local low = redis.call('ZCOUNT', key, '-inf', '(' .. score)
  local high = redis.call('ZCOUNT', key, '-inf', score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local member = unpack(redis.call('ZRANGE', key, middle, middle))
    if before(member, id) or (with and member == id) then low = middle + 1 else high = middle end
  end
  return low
end

-- Return the first and the last rank of the members with these scores ('': any) after this member ('': from the
-- beginning).
local function ranks(key, least, greatest, newest, score, id)
  local first, last = 0, redis.call('ZCARD', key) - 1
  if least ~= '' then first = redis.call('ZCOUNT', key, '-inf', '(' .. least) end
  if greatest ~= '' then last = redis.call('ZCOUNT', key, '-inf', greatest) - 1 end
  local count = math.max(0, last - first + 1)
  if score ~= '' and newest then last = math.min(last, rank(key, score, id, false) - 1) end
  if score ~= '' and not newest then first = math.max(first, rank(key, score, id, true)) end
  return first, last, count
end

-- Return up to `most` members of these ranks, with scores.
local function ranked(key, first, last, newest, most)
  if first > last or most == 0 then return {} end
  if not newest then return redis.call('ZRANGE', key, first, math.min(last, first + most - 1), 'WITHSCORES') end
  local card = redis.call('ZCARD', key)
  return redis.call('ZREVRANGE', key, card - 1 - last, card - 1 - math.max(first, last - most + 1), 'WITHSCORES')
end
