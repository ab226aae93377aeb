-- Takes a free lock that is one string key; a repeated call recognizes its own token.
-- KEYS: key
-- ARGV: token, lease: number, missing: number
--   lease: ms; missing: expiry in ms for a key without one (0: none)
-- Reply: {GRANTED, deadline us, now us} granted; {NOT_GRANTED, ms left or -1, now us} taken; {UNUSABLE, error text}
-- Codes: <locks/reply>, unusable=-1
-- Invariants: a key with another token keeps its value and its expiry; a key with the caller's token always has an
--   expiry
-- include: now
if not redis.call('SET', key, token, 'NX', 'PX', lease) then
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'string' then return {UNUSABLE, 'shares its key with a ' .. kind .. ', and all its users must agree on the form'} end
  if redis.call('GET', key) ~= token then
    local left = redis.call('PTTL', key)
    if left == -1 and missing > 0 and redis.call('PEXPIRE', key, missing) == 1 then left = missing end
    return {NOT_GRANTED, left, now}
  end
  redis.call('PEXPIRE', key, lease)
end
-- an expiry is in whole milliseconds, and may count from up to 1 ms before `now`
return {GRANTED, now + (lease - 1) * 1000, now}
