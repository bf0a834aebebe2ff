-- Gives leases a fresh TTL.
--
-- KEYS     the slots; with fencing, after them as many counters
-- ARGV[1]  the TTL in milliseconds
-- ARGV[2]  the counters' life in milliseconds, which is not used without fencing
-- ARGV[3]  1 on the tracked connection, else 0
-- ARGV[4…] the tokens of the holders, in the order of the slots
--
-- Answers, in the same order, 1 where the token holds the slot, else 0.
--
-- On the tracked connection a slot is read again after the change: see hand_over.lua.

local count = #ARGV - 3
local answers = {}
for i = 1, count do
  local holder = redis.pcall('GET', KEYS[i])
  if type(holder) == 'table' and holder.err and not string.find(holder.err, 'WRONGTYPE') then
    return holder
  end
  if holder == ARGV[i + 3] then
    redis.call('PEXPIRE', KEYS[i], ARGV[1])
    if ARGV[3] == '1' then
      redis.call('GET', KEYS[i])
    end
    -- What is there instead of a counter is left as it is.
    local counter = KEYS[count + i]
    local number = counter and redis.pcall('GET', counter)
    if type(number) == 'string' and string.find(number, '^%d+$') then
      redis.call('PEXPIRE', counter, ARGV[2])
    end
    answers[i] = 1
  else
    answers[i] = 0
  end
end
return answers
