
-- What the scripts end with that number leases. They begin with `token`, `ttl` and `life` (of the counter, KEYS[2],
-- in milliseconds, which begins anew), `granted_before`, and `read_again`.
--
-- A lease that was granted before keeps its number. A new number is larger than the last one and not behind the
-- server's clock in microseconds, so it grows also where the counter was lost. '%.0f' prints whole numbers up to
-- 2^53, which the clock reaches in 2255.
--
-- A counter that is no whole number, or from which none can grow exactly, is somebody else's or was edited: nobody
-- enters, and all stays as it is. Both keys are read before the first is written, the slot is written last.

local last = redis.call('GET', KEYS[2])
if last and not (#last <= 16 and string.find(last, '^%d+$') and tonumber(last) < 9007199254740992) then
  return redis.error_reply('WRONGTYPE the fencing counter holds no number that can grow')
end

local number = granted_before and last
if number then
  redis.call('PEXPIRE', KEYS[2], life)
else
  local time = redis.call('TIME')
  number = time[1] .. string.sub('00000' .. time[2], -6)
  if last and tonumber(number) <= tonumber(last) then
    number = string.format('%.0f', last + 1)
  end
  redis.call('SET', KEYS[2], number, 'PX', life)
end

redis.call('SET', KEYS[1], token, 'PX', ttl)
if read_again then
  redis.call('GET', KEYS[1])
end
return number
