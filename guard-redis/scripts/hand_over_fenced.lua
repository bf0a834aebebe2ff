-- Passes a slot from one token to another and numbers the new lease.
--
-- KEYS[1]  the slot
-- KEYS[2]  the counter of the slot's fencing tokens
-- ARGV[1]  the token that gives
-- ARGV[2]  the token that receives
-- ARGV[3]  the TTL in milliseconds
-- ARGV[4]  the counter's life in milliseconds
-- ARGV[5]  1 on the tracked connection, else 0: see hand_over.lua
--
-- Answers the number when the receiver holds the slot now, with a fresh TTL: a new one if it was passed by
-- this call, the same as before if by an earlier one. Answers nil when neither token holds the slot, which
-- may carry something that is no string. number.lua follows.

local token, ttl, life, read_again = ARGV[2], ARGV[3], ARGV[4], ARGV[5] == '1'
local holder = redis.pcall('GET', KEYS[1])
if type(holder) == 'table' and holder.err and not string.find(holder.err, 'WRONGTYPE') then
  return holder
end
if holder ~= ARGV[1] and holder ~= token then
  return false
end
local granted_before = holder == token
