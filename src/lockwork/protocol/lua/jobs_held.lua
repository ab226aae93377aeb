-- Reads some of the jobs in a worker session's hands.
-- KEYS: run
-- ARGV: how many, about
-- Reply: {id, token, ...}, empty when it has none
-- include: held
return held_jobs(KEYS[1], ARGV[1])
