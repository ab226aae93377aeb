-- A seal authenticates a message that its receiver trusts without a call to the server (messages.py). A user that may
-- only PUBLISH cannot make a seal. `secret` comes from the receiver. It is hashed twice, so that no one can extend a
-- known text.
local function sealed(secret, ticket, words)
  local inner = redis.sha1hex(secret .. ticket .. ' ' .. words)
  return ticket .. ' ' .. redis.sha1hex(secret .. inner) .. ' ' .. words
end
