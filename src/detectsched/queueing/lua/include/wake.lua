-- wake(P, lane): at most one token lies in the list, so that a wake-up survives a reconnect and never piles up.
local function wake(P, lane)
  local list = P .. 'wake:' .. lane
  if redis.call('LLEN', list) == 0 then redis.call('RPUSH', list, 'work') end
end
