-- PostgreSQL has what scripts decided for good: empty the settlement list of it. Idempotent.
-- KEYS[1] generation
-- ARGV[1] generation told
-- ARGV[2...] settled elements, '<decision>|<task id>'
-- Answers: {'LOST'}, or {'OK', removed}.
-- @include keys
-- @include guard

local P = prefix_of(KEYS[1])
local lost = guard(P, ARGV[1])
if lost then return {lost} end
local removed = 0
for i = 2, #ARGV do
  local id = string.match(ARGV[i], '|(.*)$') or ''
  removed = removed + redis.call('LREM', P .. 'settlement', 1, ARGV[i])
  if redis.call('HGET', P .. 'task:' .. id, 'state') == 'settling' then redis.call('DEL', P .. 'task:' .. id) end
  redis.call('PUBLISH', P .. 'done', id)
end
return {'OK', removed}
