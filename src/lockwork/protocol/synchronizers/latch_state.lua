-- Reads the remaining count of a latch.
-- Flags: no-writes
-- KEYS: <synchronizers/latch>
-- ARGV: size: number
--   size: the latch's count
-- Reply: {COUNTED, remaining}; {OTHER_COUNT, count} the latch has another count
-- Codes: counted=1, <synchronizers/latch>
-- include: now
-- include: synchronizers/latch
if ends_us <= now then return {COUNTED, size} end
if count ~= size then return {OTHER_COUNT, count} end
return {COUNTED, remaining}
