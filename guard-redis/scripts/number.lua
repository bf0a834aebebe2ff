
-- What the scripts end with that number leases. They begin with `token`, `ttl` and `life` (of the counter, KEYS[2],
-- in milliseconds, which begins anew), `granted_before`, and `read_again`.
--
-- A lease that was granted before keeps its number. A new number is larger than the last one and not behind the
-- server's clock in microseconds, so it grows also where the counter was lost. Most often the clock is ahead: then
-- that is written without asking first, as text, which is quicker than arithmetic. '%.0f' prints whole numbers up to
-- 2^53, which the clock reaches in 2255.
--
-- The slot is written last: a step that fails before leaves it as it was.

local number = granted_before and redis.call('GET', KEYS[2])
if number then
  redis.call('PEXPIRE', KEYS[2], life)
else
  local time = redis.call('TIME')
  number = time[1] .. string.sub('00000' .. time[2], -6)
  local last = redis.call('SET', KEYS[2], number, 'PX', life, 'GET')
  if last and tonumber(number) <= (tonumber(last) or 0) then
    number = string.format('%.0f', last + 1)
    redis.call('SET', KEYS[2], number, 'PX', life)
  end
end

redis.call('SET', KEYS[1], token, 'PX', ttl)
if read_again then
  redis.call('GET', KEYS[1])
end
return number
