-- Open the gate after a rebuild: the generation is written last, and only by whoever still holds the rebuild lock.
-- Idempotent: said again after a lost reply, it has opened.
-- KEYS[1] generation
-- ARGV[1] rebuild token
-- ARGV[2] the new generation
-- Answers: {'OPEN'} | {'LOST'} (somebody else rebuilds, or Redis lost its data once more).
-- @include keys

local P = prefix_of(KEYS[1])
if redis.call('GET', KEYS[1]) == ARGV[2] then return {'OPEN'} end
if redis.call('GET', P .. 'rebuild') ~= ARGV[1] then return {'LOST'} end
redis.call('SET', KEYS[1], ARGV[2])
redis.call('DEL', P .. 'rebuild')
return {'OPEN'}
