-- Passes a slot from one token to another and numbers the new lease.
--
-- KEYS[1]  the slot
-- KEYS[2]  the counter of the slot's fencing tokens
-- ARGV[1]  the token that gives
-- ARGV[2]  the token that receives
-- ARGV[3]  the TTL in milliseconds
-- ARGV[4]  the counter's life in milliseconds
--
-- Answers the number when the receiver holds the slot now, with a fresh TTL: a new one if it was passed by
-- this call, the same as before if by an earlier one. Answers nil when neither token holds the slot, which
-- may carry something that is no string. number.lua comes before. Why the slot is written last is told in
-- acquire_fenced.lua; why it is read again, in hand_over.lua.

local holder = redis.pcall('GET', KEYS[1])
if type(holder) == 'table' and holder.err and not string.find(holder.err, 'WRONGTYPE') then
  return holder
end
if holder ~= ARGV[1] and holder ~= ARGV[2] then
  return false
end

local number = number_lease(holder == ARGV[2], KEYS[2], ARGV[4])
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
redis.call('GET', KEYS[1])
return number
