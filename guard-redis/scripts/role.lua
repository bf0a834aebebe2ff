-- Goes before scripts that may have to make sure that their server is a master. Whoever may not ask takes it for one.

local function is_replica()
  local info = redis.pcall('INFO', 'replication')
  return type(info) == 'string' and string.find(info, 'role:slave', 1, true) ~= nil
end

