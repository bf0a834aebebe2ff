-- Takes a slot and numbers the lease, or tells how long somebody else still holds it.
--
-- KEYS[1]  the slot
-- KEYS[2]  the counter of the slot's fencing tokens
-- ARGV[1]  the token of the entry
-- ARGV[2]  the TTL in milliseconds
-- ARGV[3]  the counter's life in milliseconds
--
-- Answers the lease's number, a string, when the token holds the slot now, with a fresh TTL; it is a new one if
-- the slot was free, and the same as before if it was the token's own. Else the holder's remaining TTL in
-- milliseconds, an integer, -1 if it has none.
--
-- number.lua comes before. The slot is written last: a step that fails before leaves it as it was.

local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  return redis.call('PTTL', KEYS[1])
end

local number = number_lease(holder, KEYS[2], ARGV[3])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return number
