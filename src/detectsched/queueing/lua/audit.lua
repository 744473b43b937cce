-- Compare what is kept with what is there: the three counters of waiting tasks with each other, and the places in flight of
-- some queues with the tasks that are out. Places are put right here; counters that disagree are told to the caller.
-- KEYS[1] generation
-- ARGV[1] generation told
-- ARGV[2] now_ms, '' for Redis TIME
-- ARGV[3] meta_ttl_seconds
-- ARGV[4] max_out: with more tasks out than this, places are not looked at
-- ARGV[5] number of lanes, then the lanes, then queue ids
-- Answers: {'LOST'}, or {'OK', '1' when the counters agree, queues put right, name of a key of another type ('' for none)}.
-- @include keys
-- @include guard
-- @include clock
-- @include element
-- @include wake
-- @include numbers
-- @include buckets
-- @include schedule

local P = prefix_of(KEYS[1])
local lost = guard(P, ARGV[1])
if lost then return {lost} end
local now, ttl, most, lanes = now_ms(ARGV[2]), ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local policy = policy_of(P)

local KINDS = {
  global_pending = 'string', watermark = 'string', workers_epoch = 'string', deferred = 'zset', workers = 'zset',
  settlement = 'list', dead_letter = 'list', overloaded_macs = 'set', paused = 'hash', scheduler = 'hash', repairs = 'hash',
  ['tenant:pending'] = 'hash', ['mac:pending'] = 'hash', ['mac:clock'] = 'hash', ['lane:completed'] = 'hash',
  ['lane:seconds'] = 'hash', ['lane:last'] = 'hash', ['lane:admission'] = 'hash',
}

-- alien(): the name of a key that is not of its type; nothing else of this script would survive it.
local function alien()
  for name, kind in pairs(KINDS) do
    local found = redis.call('TYPE', P .. name).ok
    if found ~= kind and found ~= 'none' then return name end
  end
  return ''
end

local function sum(hash)
  local total, good = 0, true
  for _, count in ipairs(redis.call('HVALS', P .. hash)) do
    total, good = total + tonumber(count), good and tonumber(count) > 0
  end
  return total, good
end

local function counters_agree()
  local total = number(redis.call('GET', P .. 'global_pending'))
  local tenants, no_tenant_below = sum('tenant:pending')
  local subjects, no_subject_below = sum('mac:pending')
  return total >= 0 and no_tenant_below and no_subject_below and tenants == total and subjects == total
end

-- out(): per queue, the tasks that are with a runner, next, or held; nil where there are too many to be counted here.
local function out()
  local count, ids = 0, {}
  for i = 6, 5 + lanes do
    count = count + redis.call('XLEN', P .. 'stream:' .. ARGV[i])
  end
  if count > most or redis.call('ZCARD', P .. 'deferred') > most then return nil end
  for i = 6, 5 + lanes do
    for _, entry in ipairs(redis.call('XRANGE', P .. 'stream:' .. ARGV[i], '-', '+')) do
      for f = 1, #entry[2], 2 do
        if entry[2][f] == 't' then ids[#ids + 1] = entry[2][f + 1] end
      end
    end
  end
  for _, member in ipairs(redis.call('ZRANGE', P .. 'deferred', 0, -1)) do
    local id = string.match(member, '^held:(.*)$')
    if id then ids[#ids + 1] = id end
  end
  local found = {}
  for _, id in ipairs(ids) do
    local task = redis.call('HMGET', P .. 'task:' .. id, 'state', 'queue')
    if task[1] == 'streamed' or task[1] == 'held' then found[task[2]] = (found[task[2]] or 0) + 1 end
  end
  return found
end

local stranger = alien()
if stranger ~= '' then return {'OK', '0', 0, stranger} end
local repaired, there = 0, out()
for i = 6 + lanes, there and #ARGV or 0 do
  local qid = ARGV[i]
  local kept = redis.call('HGET', meta_key(P, qid), 'inflight')
  if number(kept) ~= (there[qid] or 0) then
    redis.call('HSET', meta_key(P, qid), 'inflight', there[qid] or 0)
    local lane = reindex(P, policy, qid, now, ttl)
    if lane ~= '' then wake(P, lane) end
    repaired = repaired + 1
  end
end
return {'OK', counters_agree() and '1' or '0', repaired, ''}
