-- Passes a slot from one token to another.
--
-- KEYS[1]  the slot
-- ARGV[1]  the token that gives
-- ARGV[2]  the token that receives
-- ARGV[3]  the TTL in milliseconds
-- ARGV[4]  1 on the tracked connection, else 0
--
-- Answers 1 when the receiver holds the slot now, with a fresh TTL, whether by this call or by an earlier
-- one; 0 when neither token holds it.
--
-- On the tracked connection, which is not told of its own changes, the slot is read again after the change: that
-- registers interest in the next one.

local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
elseif holder == ARGV[2] then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
else
  return 0
end
if ARGV[4] == '1' then
  redis.call('GET', KEYS[1])
end
return 1
