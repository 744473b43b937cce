-- guard(P, told): nil when this is the life of the data that the caller was told of, else the answer 'LOST'.
-- A rebuilder has no generation yet (it writes it last); it names its lock instead, as 'rebuild:<seconds>:<token>', and keeps
-- it for so many seconds from now on. To the server a write that only shortens a life: what the rebuilder writes after it is
-- not refused for want of memory, for only an open gate lets tasks end and memory come free.
local function guard(P, told)
  local current = redis.call('GET', P .. 'generation')
  if current and current == told then return nil end
  local seconds, token = string.match(told, '^rebuild:(%d+):(.+)$')
  if token and not current and redis.call('GET', P .. 'rebuild') == token then
    redis.call('EXPIRE', P .. 'rebuild', seconds)
    return nil
  end
  return 'LOST'
end
