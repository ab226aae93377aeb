-- Permits, one hash for any number of holders: n capacity, u units in use, f last fence, e latest deadline of any
-- holder (us), k holders; the fields of the waiters, see parts/waiters.lua; c newest time that was written (us), z
-- difference of the permits' clock to the server's (us); g<fence> a holder (MessagePack); r<request> fence of its
-- grant; p<1..k> = 'key fence', a heap of the holders: a key is the holder's deadline or an earlier one; x<fence>
-- position in the heap.
-- include: now
-- include: lifetimes
-- include: waiters
-- KEYS: permits
local PLACE_MS = 5000 -- lifetime of a waiter's place after its next check
local capacity, used, last_fence, latest, count, head, tail, places, first_skipped, unresponsive, newest, ahead =
  unpack(redis.call('HMGET', permits, 'n', 'u', 'f', 'e', 'k', 'h', 't', 'm', 'b', 's', 'c', 'z'))
capacity, used, last_fence = tonumber(capacity or 0), tonumber(used or 0), tonumber(last_fence or 0)
latest, count = tonumber(latest or 0), tonumber(count or 0)
-- If the server's clock was set back, the permits' clock continues from its newest time, so no lease gets longer.
ahead = math.max(tonumber(ahead or 0), tonumber(newest or 0) - now)
now = now + ahead
open_waiters(permits, head, tail, places, first_skipped, unresponsive)
local earliest -- deadline of the holders (us), set by remove_expired_holders

local function save_permits()
  if count == 0 then used, latest = 0, 0 end
  redis.call('HSET', permits, 'n', capacity, 'u', used, 'f', last_fence, 'e', latest, 'k', count, 'c', now, 'z', ahead)
  if waiters.stored or waiters.count > 0 then save_waiters() end
  local left = 0
  if count > 0 or waiters.count > 0 then left = math.max(math.ceil((latest - now) / 1000), WAITER_MS) end
  -- the last fence is needed until the server's clock has passed it
  redis.call('PEXPIRE', permits, math.max(left, math.ceil((last_fence - now + ahead) / 1000)) + MARGIN_MS)
end

local function parse_entry(entry)
  local key, fence = string.match(entry, '^(%d+) (%d+)$')
  return tonumber(key), fence
end

local function set_entry(at, entry)
  redis.call('HSET', permits, 'p' .. at, entry, 'x' .. string.match(entry, '%d+$'), at)
end

local function sift_up(at, key, entry)
  while at > 1 do
    local parent_at = math.floor(at / 2)
    local parent = redis.call('HGET', permits, 'p' .. parent_at)
    if parse_entry(parent) <= key then break end
    set_entry(at, parent)
    at = parent_at
  end
  set_entry(at, entry)
end

local function sift_down(at, key, entry)
  while 2 * at <= count do
    local child_at = 2 * at
    local child, right = unpack(redis.call('HMGET', permits, 'p' .. child_at, 'p' .. (child_at + 1)))
    local child_key = parse_entry(child)
    if right and parse_entry(right) < child_key then
      child_key, child, child_at = parse_entry(right), right, child_at + 1
    end
    if child_key >= key then break end
    set_entry(at, child)
    at = child_at
  end
  set_entry(at, entry)
end

-- Return the holder with a fence; it has an unclaimed_channel until its process claims a transfer.
local function read_holder(fence)
  local packed = fence and redis.call('HGET', permits, 'g' .. fence)
  if not packed then return nil end
  local deadline, owner, request, units, since_us, unclaimed_channel = unpack(cmsgpack.unpack(packed), 1, 6)
  return {deadline = deadline, owner = owner, request = request, units = units, since_us = since_us, unclaimed_channel = unclaimed_channel}
end

local function pack_holder(holder)
  return cmsgpack.pack({holder.deadline, holder.owner, holder.request, holder.units, holder.since_us, holder.unclaimed_channel})
end

local function grant(owner, request, lease, units, unclaimed_channel)
  last_fence = math.max(last_fence + 1, now)
  local deadline = now + lease * 1000
  local fence = string.format('%.0f', last_fence)
  latest, used, count = math.max(latest, deadline), used + units, count + 1
  if earliest then earliest = math.min(earliest, deadline) end
  local holder = pack_holder({
    deadline = deadline, owner = owner, request = request, units = units, since_us = now, unclaimed_channel = unclaimed_channel
  })
  redis.call('HSET', permits, 'g' .. fence, holder, 'r' .. request, fence)
  sift_up(count, deadline, string.format('%.0f %s', deadline, fence))
  return last_fence, deadline
end

local function remove_holder(fence, holder)
  local at = tonumber(redis.call('HGET', permits, 'x' .. fence))
  local moved = redis.call('HGET', permits, 'p' .. count)
  redis.call('HDEL', permits, 'g' .. fence, 'r' .. holder.request, 'x' .. fence, 'p' .. count)
  used, count = used - holder.units, count - 1
  if at > count then return end
  local key = parse_entry(moved)
  if at > 1 and parse_entry(redis.call('HGET', permits, 'p' .. math.floor(at / 2))) > key then
    sift_up(at, key, moved)
  else
    sift_down(at, key, moved)
  end
end

-- Remove holders whose lease has ended, and set `earliest`: to now if there may be more. A call does at most 100 steps;
-- a holder that was renewed also costs a step.
local expired_owners = {}
local function remove_expired_holders()
  earliest = math.huge
  for _ = 1, 100 do
    if count == 0 then return end
    local key, fence = parse_entry(redis.call('HGET', permits, 'p1'))
    local holder = read_holder(fence)
    if holder.deadline <= now then
      remove_holder(fence, holder)
      expired_owners[#expired_owners + 1] = holder.owner
      if holder.unclaimed_channel then mark_unresponsive(holder.unclaimed_channel) end
    elseif holder.deadline > key then
      sift_down(1, holder.deadline, string.format('%.0f %s', holder.deadline, fence))
    else
      earliest = key
      return
    end
  end
  earliest = now
end
