-- Withdraws a request for `lock`: removes its waiter, or releases its grant to the next waiter.
-- include: locks/waiters

local function withdraw(owner, request)
  local holder, holder_request, fence, deadline, head, tail = unpack(redis.call('HMGET', lock, 'o', 'r', 'f', 'd', 'h', 't'))
  if holder == owner and holder_request == request and (deadline or '0') ~= '0' then
    release_to_next(fence, deadline, head, tail)
  elseif tail then
    open_waiters(lock, head, tail, unpack(redis.call('HMGET', lock, 'm', 'b', 's')))
    remove_request(request)
    save_waiters()
  end
end
