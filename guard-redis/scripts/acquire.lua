-- Takes a slot, or tells how long somebody else still holds it.
--
-- KEYS[1]  the slot
-- ARGV[1]  the token of the entry
-- ARGV[2]  the TTL in milliseconds
-- ARGV[3]  1 on the tracked connection, else 0: whether a replica that can be written to must be told apart here
--
-- Answers -3 when the token holds the slot now, with a fresh TTL, whether it was free or the token's own;
-- else the holder's remaining TTL in milliseconds, -1 if it has none.

local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  return redis.call('PTTL', KEYS[1])
end
if ARGV[3] == '1' and is_replica() then
  return redis.error_reply('READONLY the server is a replica')
end
if not holder then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return -3
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return -3
