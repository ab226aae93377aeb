-- parts/publish.lua on a node of a Cluster. Messages go to the sharded channel CHANNEL{TAG} with the hash tag of the
-- script's keys, so the primary that runs the script serves its subscribers, too. A message also goes to CHANNEL on all
-- nodes if the sharded channel has no subscriber because its slot has just moved, or if it is for a holder ('!'),
-- because holders do not subscribe per slot. Before Redis 7, and without the right to sharded channels, messages go to
-- CHANNEL only, and its subscribers cannot be counted.
local hash_tag = string.match(KEYS[1], '{(.-)}') or KEYS[1]

local function sharded(channel)
  return channel .. '{' .. hash_tag .. '}'
end

local function send(channel, text)
  local receivers = string.sub(text, 1, 2) ~= '! ' and redis.pcall('SPUBLISH', sharded(channel), text)
  if type(receivers) == 'number' and receivers > 0 then return receivers end
  local sent = redis.pcall('PUBLISH', channel, text)
  if type(receivers) == 'number' then return receivers end
  return type(sent) == 'number' and sent or nil
end

local function publish(channel, text)
  return send(channel, text) or 0
end

local function has_subscriber(channel)
  local _, count = unpack(redis.pcall('PUBSUB', 'SHARDNUMSUB', sharded(channel)))
  return count and count > 0
end

-- A subscriber that cannot be counted is a receiver.
local function notify(channel, text)
  local received = publish(channel, text) > 0
  return (received or has_subscriber(channel) == nil) and 1 or 0
end
