-- Withdraws a buyer's request: removes its waiter, and puts its unclaimed units on sale again.
-- KEYS: <stock/stock>
-- ARGV: id, claimed: flag
--   claimed: also release claimed units
-- Out of memory: goes on
-- Reply: 1
-- Invariants: a sale is not undone
-- include: now
-- include: stock/stock
-- include: stock/waiters
end_expired()
remove_waiter_of(id)
local reservation = read_reservation(id)
if reservation and reservation.state == 'h' and (reservation.unclaimed_hold_ms or claimed) then remove_reservation(id, reservation) end
reserve_for_waiters()
notify_first_waiter()
return 1
