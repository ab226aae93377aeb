-- publish.lua on a node of a Cluster. A message goes to CHANNEL{TAG}, a sharded channel: TAG is the hash tag of the script's keys, so
-- the channel's slot is theirs, and the primary that runs the script knows all who listen there. Where nobody does, because the slot has
-- just moved, the message also goes to the channel itself, on all nodes; so does what is for holders ('!'), who do not listen by slot.
-- Before Redis 7, and for a user who may use no sharded channels, the channel itself is all there is, and its listeners are not known.
local hash_tag = string.match(KEYS[1], '{(.-)}') or KEYS[1]

local function of_slot(channel)
  return channel .. '{' .. hash_tag .. '}'
end

local function send(channel, text)
  local heard = string.sub(text, 1, 2) ~= '! ' and redis.pcall('SPUBLISH', of_slot(channel), text)
  if type(heard) == 'number' and heard > 0 then return heard end
  local sent = redis.pcall('PUBLISH', channel, text)
  if type(heard) == 'number' then return heard end
  return type(sent) == 'number' and sent or nil
end

local function publish(channel, text)
  return send(channel, text) or 0
end

local function listens(channel)
  local count = redis.pcall('PUBSUB', 'SHARDNUMSUB', of_slot(channel))[2]
  return count and count > 0
end

-- A listener that cannot be counted counts as a receiver.
local function tell(channel, text)
  local received = publish(channel, text) > 0
  return (received or listens(channel) == nil) and 1 or 0
end
