-- now_ms(told): milliseconds since the epoch by Redis' own clock; a test or a simulation tells another time.
local function now_ms(told)
  if told ~= '' then return tonumber(told) end
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
