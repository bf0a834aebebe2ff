-- Frees a slot if the token holds it.
--
-- KEYS[1]  the slot
-- ARGV[1]  the token of the holder
--
-- Answers 1 when the slot was the token's, else 0.

if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
