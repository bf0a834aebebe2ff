-- Takes a slot, or tells how long somebody else still holds it.
--
-- KEYS[1]  the slot
-- ARGV[1]  the token of the entry
-- ARGV[2]  the TTL in milliseconds
--
-- Answers -3 when the token holds the slot now, with a fresh TTL, whether it was free or the token's own;
-- else the holder's remaining TTL in milliseconds, -1 if it has none.

local holder = redis.call('GET', KEYS[1])
if not holder then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return -3
end
if holder == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return -3
end
return redis.call('PTTL', KEYS[1])
