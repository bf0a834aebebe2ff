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
-- A new number is larger than the last one and not behind the server's clock in microseconds, so it grows
-- also where the counter was lost. Most often the clock is ahead: then that is written without asking first,
-- as text, which is quicker than arithmetic. '%.0f' prints whole numbers up to 2^53, which the clock reaches in
-- 2255. The slot is written last: a step that fails before leaves it as it was.

local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  return redis.call('PTTL', KEYS[1])
end

local number = holder and redis.call('GET', KEYS[2])
if number then
  redis.call('PEXPIRE', KEYS[2], ARGV[3])
else
  local time = redis.call('TIME')
  number = time[1] .. string.sub('00000' .. time[2], -6)
  local last = redis.call('SET', KEYS[2], number, 'PX', ARGV[3], 'GET')
  if last and tonumber(number) <= (tonumber(last) or 0) then
    number = string.format('%.0f', last + 1)
    redis.call('SET', KEYS[2], number, 'PX', ARGV[3])
  end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return number
