-- A key that holds another kind of data stops a script at its first touch, and what was written before is not undone.
-- So a script that writes to several keys reads from all of them first.
local function touch(read, first, last)
  for at = first, last do redis.call(read, KEYS[at]) end
end
