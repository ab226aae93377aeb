-- Rows of history: MessagePack [letter, attempts, started us (0: never), session, beginning of the record, its bytes,
-- timeline]; letter: s succeeded, c cancelled, x expired.

-- Return the letter of a row, the beginning of the job's record, and the size of the whole record; nil if the row is
-- unreadable.
local function unpack_row(row)
  local readable, fields = pcall(cmsgpack.unpack, row)
  if not readable or type(fields) ~= 'table' then return nil end
  local letter, _, _, _, record, size = unpack(fields, 1, 6)
  if type(record) == 'string' then return letter, record, size end
end
