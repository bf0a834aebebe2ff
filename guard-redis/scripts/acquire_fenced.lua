-- Takes a slot and numbers the lease, or tells how long somebody else still holds it.
--
-- KEYS[1]  the slot
-- KEYS[2]  the counter of the slot's fencing tokens
-- ARGV[1]  the token of the entry
-- ARGV[2]  the TTL in milliseconds
-- ARGV[3]  the counter's life in milliseconds
-- ARGV[4]  1 on the tracked connection, else 0: see acquire.lua
--
-- Answers the lease's number, a string, when the token holds the slot now, with a fresh TTL; it is a new one if
-- the slot was free, and the same as before if it was the token's own. Else the holder's remaining TTL in
-- milliseconds, an integer, -1 if it has none.
--
-- number.lua follows.

local token, ttl, life, read_again = ARGV[1], ARGV[2], ARGV[3], false
local granted_before = redis.call('GET', KEYS[1])
if granted_before and granted_before ~= token then
  return redis.call('PTTL', KEYS[1])
end
if ARGV[4] == '1' and is_replica() then
  return redis.error_reply('READONLY the server is a replica')
end
