-- What the scripts begin with that number leases.
--
-- A new number is larger than the last one and not behind the server's clock in microseconds, so it grows
-- also where the counter was lost. Most often the clock is ahead: then that is written without asking first,
-- as text, which is quicker than arithmetic. '%.0f' prints whole numbers up to 2^53, which the clock reaches in
-- 2255.

-- The number of a lease, from the slot's counter, whose life in milliseconds begins anew. One that was granted
-- before keeps its number.
local function number_lease(granted_before, counter, life)
  local number = granted_before and redis.call('GET', counter)
  if number then
    redis.call('PEXPIRE', counter, life)
    return number
  end
  local time = redis.call('TIME')
  number = time[1] .. string.sub('00000' .. time[2], -6)
  local last = redis.call('SET', counter, number, 'PX', life, 'GET')
  if last and tonumber(number) <= (tonumber(last) or 0) then
    number = string.format('%.0f', last + 1)
    redis.call('SET', counter, number, 'PX', life)
  end
  return number
end

