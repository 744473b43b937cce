-- Renew the leases that a runner holds. The entry must still be its own, under the same delivery: a bare XCLAIM by a
-- stale owner would steal the task back.
-- KEYS[1] generation
-- ARGV[1] generation told
-- ARGV[2] now_ms, '' for Redis TIME
-- ARGV[3] consumer
-- ARGV[4] lease_ms
-- ARGV[5...] per task, 2 fields: id, delivery
-- Answers: {'LOST'}, or per task 'RENEWED' | 'CANCEL' (renewed, and it was asked to stop) | 'STALE'.
-- @include keys
-- @include guard
-- @include clock
-- @include element
-- @include place
-- @include giveback

local P = prefix_of(KEYS[1])
local lost = guard(P, ARGV[1])
if lost then return {lost} end
local now, consumer, lease = now_ms(ARGV[2]), ARGV[3], tonumber(ARGV[4])

local function renew(task)
  if task.state == 'held' then
    if task.owner ~= consumer then return 'STALE' end
    redis.call('ZADD', P .. 'deferred', 'XX', now + lease, 'held:' .. task.id)
  else
    local stream = P .. 'stream:' .. task.lane
    local holder = redis.call('XPENDING', stream, GROUP, task.entry, task.entry, 1)[1]
    if not holder or holder[2] ~= consumer then return 'STALE' end
    redis.call('XCLAIM', stream, GROUP, consumer, 0, task.entry, 'JUSTID')
  end
  return redis.call('HEXISTS', P .. 'task:' .. task.id, 'cancel') == 1 and 'CANCEL' or 'RENEWED'
end

local answers = {}
for i = 5, #ARGV, 2 do
  local task = read_task(P, ARGV[i])
  answers[#answers + 1] = is_out(task, ARGV[i + 1]) and renew(task) or 'STALE'
end
return answers
