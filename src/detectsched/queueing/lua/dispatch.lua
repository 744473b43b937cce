-- Serve a lane: hand tasks of its queues to its stream, never more than there is room for.
-- KEYS[1] generation
-- ARGV[1] generation told
-- ARGV[2] now_ms, '' for Redis TIME
-- ARGV[3] meta_ttl_seconds
-- ARGV[4] lane
-- ARGV[5] capacity: free and busy slots of the lane's live runners
-- ARGV[6] batch: a turn in standard tasks of cost
-- ARGV[7] min_batch: a turn while the next candidate starves
-- ARGV[8] starvation_ms
-- ARGV[9] order: fifo | lifo (device queues)
-- ARGV[10] max_tasks this call may send
-- ARGV[11...] consumer names of live runners; what other consumers hold does not use up capacity
-- Answers: {'LOST'}, or {'OK', sent, expired, more ('1' when work and room are left), outstanding}.
-- @include keys
-- @include guard
-- @include clock
-- @include element
-- @include wake
-- @include pending
-- @include numbers
-- @include buckets
-- @include schedule
-- @include backoff
-- @include serve

local P = prefix_of(KEYS[1])
local lost = guard(P, ARGV[1])
if lost then return {lost} end
local now, ttl, lane, capacity = now_ms(ARGV[2]), ARGV[3], ARGV[4], tonumber(ARGV[5])
-- Where memory is used up, the server refuses a script at its first write, unless that one can only free some: what is
-- handed out is how it becomes free.
redis.call('SREM', P .. 'overloaded_macs', '')
local stream = P .. 'stream:' .. lane

-- outstanding(): entries not yet completed, less those that only dead runners hold (they return by their lease).
local function outstanding()
  local count = redis.call('XLEN', stream)
  if count == 0 then return 0 end
  local live = {}
  for i = 11, #ARGV do live[ARGV[i]] = true end
  local summary = redis.call('XPENDING', stream, GROUP)
  for _, holder in ipairs(summary[4] or {}) do
    if not live[holder[1]] then count = count - tonumber(holder[2]) end
  end
  return count
end

local sent, expired, more = serve(P, policy_of(P), lane, now, ttl, {
  room = capacity - outstanding(), max_tasks = tonumber(ARGV[10]), batch = tonumber(ARGV[6]),
  min_batch = tonumber(ARGV[7]), starvation_ms = tonumber(ARGV[8]), order = ARGV[9],
})
return {'OK', sent, expired, more and '1' or '0', redis.call('XLEN', stream)}
