local WOKEN = {}

-- wake(P, lane): at most one token lies in the list, so that a wake-up survives a reconnect and never piles up. Nobody takes
-- it away while the script runs.
local function wake(P, lane)
  if WOKEN[lane] then return end
  WOKEN[lane] = true
  local list = P .. 'wake:' .. lane
  if redis.call('LLEN', list) == 0 then redis.call('RPUSH', list, 'work') end
end
