-- Tells who holds a slot.
--
-- KEYS[1]  the slot
--
-- Answers the token and its remaining TTL in milliseconds (-1 if it has none), or nil when the slot is free.

local holder = redis.call('GET', KEYS[1])
if not holder then
  return false
end
return { holder, redis.call('PTTL', KEYS[1]) }
