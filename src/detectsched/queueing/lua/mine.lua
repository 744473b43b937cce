-- What is pending in a runner's name, looked at without touching it: XREADGROUP would count it as delivered once more, and
-- so put off the end of leases that nobody renews.
-- KEYS[1] generation
-- ARGV[1] generation told
-- ARGV[2] lane
-- ARGV[3] consumer
-- ARGV[4] max_entries
-- Answers: {'LOST'}, or {'OK', entry, id, delivery, entry, id, delivery, …}.
-- @include keys
-- @include guard

local P = prefix_of(KEYS[1])
local lost = guard(P, ARGV[1])
if lost then return {lost} end
local stream = P .. 'stream:' .. ARGV[2]
local answers = {'OK'}
for _, pending in ipairs(redis.call('XPENDING', stream, GROUP, '-', '+', ARGV[4], ARGV[3])) do
  local entry = redis.call('XRANGE', stream, pending[1], pending[1])[1]
  local fields = {}
  for i = 1, entry and #entry[2] or 0, 2 do fields[entry[2][i]] = entry[2][i + 1] end
  if fields.t and fields.d then
    answers[#answers + 1] = pending[1]
    answers[#answers + 1] = fields.t
    answers[#answers + 1] = fields.d
  end
end
return answers
