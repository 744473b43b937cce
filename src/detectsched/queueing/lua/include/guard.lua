-- guard(P, told): nil when this is the life of the data that the caller was told of, else the answer 'LOST'.
-- A rebuilder has no generation yet (it writes it last); it names its lock instead, as 'rebuild:<token>'.
local function guard(P, told)
  local current = redis.call('GET', P .. 'generation')
  if current and current == told then return nil end
  local token = string.match(told, '^rebuild:(.+)$')
  if token and not current and redis.call('GET', P .. 'rebuild') == token then return nil end
  return 'LOST'
end
