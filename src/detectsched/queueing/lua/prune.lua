-- Remove the consumers of runners that are gone: each start of a runner makes one. Only those that hold nothing, looked at
-- and removed in one script, since what a consumer holds is removed with it.
-- KEYS[1] generation
-- ARGV[1] generation told
-- ARGV[2] lane
-- ARGV[3] idle_ms: how long it has asked for nothing
-- Answers: {'LOST'}, or {'OK', removed}.
-- @include keys
-- @include guard

local P = prefix_of(KEYS[1])
local lost = guard(P, ARGV[1])
if lost then return {lost} end
local stream, removed = P .. 'stream:' .. ARGV[2], 0
for _, flat in ipairs(redis.call('XINFO', 'CONSUMERS', stream, GROUP)) do
  local consumer = {}
  for i = 1, #flat, 2 do consumer[flat[i]] = flat[i + 1] end
  if consumer.pending == 0 and consumer.idle >= tonumber(ARGV[3]) then
    redis.call('XGROUP', 'DELCONSUMER', stream, GROUP, consumer.name)
    removed = removed + 1
  end
end
return {'OK', removed}
