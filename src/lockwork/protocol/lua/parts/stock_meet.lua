-- The reservation that a call meets: its own, made before, or one of its key.
-- include: stock

local function meet(known, id, buyer)
  local kept = reservation(known)
  if not kept then return nil end
  if kept[1] == 'h' and kept[5] <= clock then
    put_back(known, kept)
    redis.call('HINCRBY', stock, 'expired', 1)
    return nil
  end
  if kept[2] ~= buyer then return {-2, '', '', 0, 0, 0, 0} end
  local left = kept[1] == 'h' and math.ceil((kept[5] - clock) / 1000) or 0
  return {1, known, kept[1], kept[3], left, kept[6], known == id and 1 or 0}
end

local function earlier(id, buyer, key)
  return meet(id, id, buyer) or (key ~= '' and meet(redis.call('HGET', stock, 'k' .. key) or '', id, buyer))
end
