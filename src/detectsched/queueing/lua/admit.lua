-- Is there room for one more task of each of these devices? O(1) per device: counters only.
-- A device over its limit is listed in overloaded_macs until its backlog has fallen to the release level (hysteresis).
-- KEYS[1] generation
-- ARGV[1] generation told
-- ARGV[2] max_total
-- ARGV[3] max_per_subject
-- ARGV[4] release level of a subject
-- ARGV[5...] per request, 2 fields: subject, tasks it brings
-- Answers: {'LOST'}, or per request 'OK' | 'SYSTEM' | 'DEVICE', followed by total pending and the subject's pending.
-- @include keys
-- @include guard

local P = prefix_of(KEYS[1])
local lost = guard(P, ARGV[1])
if lost then return {lost} end
local max_total, max_subject, release = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local total = tonumber(redis.call('GET', P .. 'global_pending') or '0')

local brought = {} -- what earlier requests of this very call bring, per subject

local function judge(subject, pending)
  local listed = redis.call('SISMEMBER', P .. 'overloaded_macs', subject) == 1
  if listed and pending <= release then
    redis.call('SREM', P .. 'overloaded_macs', subject)
    listed = false
  end
  if total > max_total then return 'SYSTEM' end
  if listed then return 'DEVICE' end
  if pending > max_subject then
    redis.call('SADD', P .. 'overloaded_macs', subject)
    return 'DEVICE'
  end
  return 'OK'
end

local answers = {}
for i = 5, #ARGV, 2 do
  local pending = tonumber(redis.call('HGET', P .. 'mac:pending', ARGV[i]) or '0') + (brought[ARGV[i]] or 0)
  local verdict = judge(ARGV[i], pending)
  if verdict == 'OK' then
    total = total + tonumber(ARGV[i + 1])
    brought[ARGV[i]] = (brought[ARGV[i]] or 0) + tonumber(ARGV[i + 1])
  end
  answers[#answers + 1] = verdict
  answers[#answers + 1] = total
  answers[#answers + 1] = pending
end
return answers
