-- Gives leases a fresh TTL.
--
-- KEYS     the slots; with fencing, after them as many counters
-- ARGV[1]  the TTL in milliseconds
-- ARGV[2]  the counters' life in milliseconds, which is not used without fencing
-- ARGV[3…] the tokens of the holders, in the order of the slots
--
-- Answers, in the same order, 1 where the token holds the slot, else 0.
--
-- A slot is read again after the change: on the tracked connection that registers interest in its next one.

local count = #ARGV - 2
local answers = {}
for i = 1, count do
  local holder = redis.pcall('GET', KEYS[i])
  if type(holder) == 'table' and holder.err and not string.find(holder.err, 'WRONGTYPE') then
    return holder
  end
  if holder == ARGV[i + 2] then
    redis.call('PEXPIRE', KEYS[i], ARGV[1])
    redis.call('GET', KEYS[i])
    if KEYS[count + i] then
      redis.call('PEXPIRE', KEYS[count + i], ARGV[2])
    end
    answers[i] = 1
  else
    answers[i] = 0
  end
end
return answers
