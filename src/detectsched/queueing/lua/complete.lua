-- A task has reached its terminal state in PostgreSQL: forget it, free its place, let its queue be served again. A runner
-- may take the lane's next task into the place that it has just freed: what the dispatcher would send it, three round
-- trips earlier. Idempotent: a task already forgotten answers 'GONE', and brings no other.
-- KEYS[1] generation
-- ARGV[1] generation told
-- ARGV[2] now_ms, '' for Redis TIME
-- ARGV[3] meta_ttl_seconds
-- ARGV[4] failure_threshold, ARGV[5] backoff_base_ms, ARGV[6] backoff_max_ms
-- ARGV[7] batch, ARGV[8] min_batch, ARGV[9] starvation_ms, ARGV[10] order: as for dispatch
-- ARGV[11...] per task, 5 fields: id, delivery, result ('good' | 'bad' | '' for one that says nothing about its queue),
--   seconds of work it really took ('' where that was not measured), consumer that takes the next task ('' for none)
-- Answers: {'LOST'}, or per task {'DONE' | 'GONE' | 'STALE' (it is with somebody else now, or waits again)}, with
--   entry id, task id and delivery number of the next task behind it if there was one.
-- @include keys
-- @include guard
-- @include clock
-- @include element
-- @include wake
-- @include place
-- @include pending
-- @include numbers
-- @include buckets
-- @include schedule
-- @include giveback
-- @include backoff
-- @include serve

local P = prefix_of(KEYS[1])
local lost = guard(P, ARGV[1])
if lost then return {lost} end
local now, ttl = now_ms(ARGV[2]), ARGV[3]
local threshold, base, most = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local policy = policy_of(P)
local SMOOTHING = 0.05 -- weight of the newest task in the lane's seconds per unit of cost

-- settle_account(task, seconds): the estimate was charged at the dispatch; what the work really took, measured by what
-- such work takes in this lane, corrects it, within a factor of ten so that one stall does not ban a device.
local function settle_account(task, seconds)
  local cost = tonumber(task.cost)
  local usual = number(redis.call('HGET', P .. 'lane:seconds', task.lane))
  local latest = seconds / cost
  local smoothed = usual > 0 and (1 - SMOOTHING) * usual + SMOOTHING * latest or latest
  redis.call('HSET', P .. 'lane:seconds', task.lane, exact(smoothed))
  if usual > 0 then
    local correction = math.max(0.1, math.min(10, latest / usual)) - 1
    correct_charge(P, policy, task.lane, task.queue, correction * cost, ttl)
  end
end

-- next_unread(lane, taker): the oldest entry that nobody has fetched, now in the taker's hands; nil when there is none.
local function next_unread(lane, taker)
  local found = redis.call('XREADGROUP', 'GROUP', GROUP, taker, 'COUNT', 1, 'STREAMS', P .. 'stream:' .. lane, '>')
  local entry = found and found[1][2][1]
  if not entry then return nil end
  local fields = {}
  for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
  return {entry[1], fields.t or '', fields.d or ''}
end

-- take_next(lane, taker): what was sent before comes first; the lane is served for one task where nothing was.
local function take_next(lane, taker)
  local found = next_unread(lane, taker)
  if found then return found end
  local sent = serve(P, policy, lane, now, ttl, {
    room = 1, max_tasks = 1, batch = tonumber(ARGV[7]), min_batch = tonumber(ARGV[8]),
    starvation_ms = tonumber(ARGV[9]), order = ARGV[10],
  })
  return sent > 0 and next_unread(lane, taker) or nil
end

local function complete(task, result, seconds, taker)
  leave_stream(P, task)
  redis.call('DEL', P .. 'task:' .. task.id)
  redis.call('HINCRBY', P .. 'lane:completed', task.lane, 1)
  if seconds ~= '' then settle_account(task, tonumber(seconds)) end
  if result == 'bad' then count_failure(P, task.queue, now, threshold, base, most) end
  if result == 'good' then count_success(P, task.queue) end
  local served = reindex(P, policy, task.queue, now, ttl)
  local found = taker ~= '' and take_next(task.lane, taker) or nil
  -- Where the place is taken again, the dispatcher need not look, unless there may be more places than this one.
  if not found or redis.call('EXISTS', P .. 'mac:schedule:' .. task.lane) == 1 then wake(P, task.lane) end
  if served ~= '' and served ~= task.lane then wake(P, served) end
  redis.call('PUBLISH', P .. 'done', task.id)
  return found
end

local answers = {}
for i = 11, #ARGV, 5 do
  local task = read_task(P, ARGV[i])
  if not task then
    answers[#answers + 1] = {'GONE'}
  elseif not is_out(task, ARGV[i + 1]) then
    answers[#answers + 1] = {'STALE'}
  else
    local found = complete(task, ARGV[i + 2], ARGV[i + 3], ARGV[i + 4])
    answers[#answers + 1] = found and {'DONE', found[1], found[2], found[3]} or {'DONE'}
  end
end
return answers
