-- The replies of stock/reserve.lua, and the earlier reservation of a request or of its key.
-- Codes: reserved=1, sold_out=0, over_limit=-1, other_buyer=-2, queue_full=-3
-- needs: RESERVED, SOLD_OUT, OVER_LIMIT, OTHER_BUYER, QUEUE_FULL
-- include: stock/stock

local function answer(code, id, state, units, left, fence, created)
  return {code, id or '', state or '', units or 0, left or 0, fence or 0, created or 0, created_with}
end

local function answer_no_room(no_room)
  local waiting, size = unpack(no_room)
  return answer(QUEUE_FULL, '', '', waiting, size)
end

local function answer_earlier(earlier_id, id, buyer)
  local reservation = read_reservation(earlier_id)
  if not reservation then return nil end
  if not is_live(reservation) then
    remove_reservation(earlier_id, reservation)
    redis.call('HINCRBY', stock, 'expired', 1)
    return nil
  end
  if reservation.buyer ~= buyer then return answer(OTHER_BUYER) end
  local created = earlier_id == id and 1 or 0
  return answer(RESERVED, earlier_id, reservation.state, reservation.units, left_ms(reservation), reservation.fence, created)
end

local function earlier_reservation(id, buyer, key)
  local earlier = answer_earlier(id, id, buyer)
  if earlier or key == '' then return earlier end
  return answer_earlier(redis.call('HGET', stock, 'k' .. key) or '', id, buyer)
end
