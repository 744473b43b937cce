-- Take over, in the reaper's name, deliveries whose owner has been silent for a lease. The old owner's renewal and
-- completion fail from now on; the reaper corrects PostgreSQL and then releases. If the reaper dies, its own entries
-- grow old and the next reaper takes them.
-- KEYS[1] generation
-- ARGV[1] generation told
-- ARGV[2] lane
-- ARGV[3] reaper's consumer name
-- ARGV[4] lease_ms
-- ARGV[5] max_tasks
-- ARGV[6] cursor: where to go on, '0-0' to begin. XAUTOCLAIM looks at ten entries for each that it may take, so that the
--   overdue ones behind many that are renewed are found only by going on.
-- Answers: {'LOST'}, or {'OK', cursor ('0-0': all have been looked at), id, delivery, id, delivery, …}; an entry that no
--   task belongs to is removed.
-- @include keys
-- @include guard

local P = prefix_of(KEYS[1])
local lost = guard(P, ARGV[1])
if lost then return {lost} end
local stream = P .. 'stream:' .. ARGV[2]
if redis.call('EXISTS', stream) == 0 then return {'OK', '0-0'} end
local claimed = redis.call('XAUTOCLAIM', stream, GROUP, ARGV[3], ARGV[4], ARGV[6], 'COUNT', ARGV[5])
local answers = {'OK', claimed[1]}
for _, entry in ipairs(claimed[2]) do
  local fields = {}
  for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
  local known = fields.t and redis.call('HMGET', P .. 'task:' .. fields.t, 'entry', 'delivery')
  if known and known[1] == entry[1] and known[2] == fields.d then
    answers[#answers + 1] = fields.t
    answers[#answers + 1] = fields.d
  else
    redis.call('XACK', stream, GROUP, entry[1])
    redis.call('XDEL', stream, entry[1])
  end
end
return answers
