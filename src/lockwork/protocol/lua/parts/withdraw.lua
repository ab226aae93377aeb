-- Takes a request out of the lock in `lock`: a waiter is removed, a grant is handed on.
-- include: lock_waiters

local function withdraw(owner, request)
  local held = redis.call('HMGET', lock, 'o', 'r', 'f', 'd', 'h', 't')
  if held[1] == owner and held[2] == request and held[4] ~= '0' then
    pass(held[3], held[5], held[6])
  elseif held[6] then
    open_waiters(lock, held[5], held[6], unpack(redis.call('HMGET', lock, 'm', 'b', 's')))
    leave(request)
    save_waiters()
  end
end
