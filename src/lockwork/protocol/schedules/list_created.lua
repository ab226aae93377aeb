-- Reads the schedules that were created at run time, in the order of their names.
-- Flags: no-writes
-- KEYS: <schedules/schedule>, created_names: zset
-- ARGV: after, most
--   after: the last name of the previous page; '' at the beginning
-- Reply: {now ms, the last name or '' if no names follow, then as in schedules/list}
-- include: now
-- include: schedules/row
local names = redis.call('ZRANGEBYLEX', created_names, after == '' and '-' or '(' .. after, '+', 'LIMIT', 0, most)
local reply = {math.floor(now / 1000), #names == tonumber(most) and names[#names] or ''}
for _, name in ipairs(names) do append_row(reply, name) end
return reply
