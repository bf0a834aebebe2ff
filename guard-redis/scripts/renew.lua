-- Gives a lease a fresh TTL.
--
-- KEYS[1]  the slot
-- ARGV[1]  the token of the holder
-- ARGV[2]  the TTL in milliseconds
--
-- Answers 1 when the token holds the slot, else 0.

if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
