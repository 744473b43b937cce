-- Remove keys in the course of a rebuild, and keep its lock for longer; without keys only the latter. Whoever has lost the
-- lock removes nothing: the keys are those of another life by now.
-- KEYS[1] generation
-- ARGV[1] rebuild token
-- ARGV[2] lock_seconds
-- ARGV[3...] keys to be removed
-- Answers: {'LOST'}, or {'OK', removed}.
-- @include keys

local P = prefix_of(KEYS[1])
if redis.call('GET', P .. 'rebuild') ~= ARGV[1] then return {'LOST'} end
redis.call('EXPIRE', P .. 'rebuild', ARGV[2])
local removed = 0
for i = 3, #ARGV do removed = removed + redis.call('UNLINK', ARGV[i]) end
return {'OK', removed}
