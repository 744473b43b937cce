-- Take the rebuild lock and close the gate, if the data still live the life in which the need was found: a rebuilder that
-- comes late must not close the gate that another has opened meanwhile.
-- KEYS[1] generation
-- ARGV[1] rebuild token
-- ARGV[2] the generation as it was when the need was found ('' for none)
-- ARGV[3] lock_seconds
-- ARGV[4] policy that everything will be scheduled under
-- ARGV[5...] tokens that the caller tried before: it takes the lock over from itself after a rebuild that failed half-way.
--   What is still on its way under an older token does no harm any more.
-- Answers: {'BEGUN'} | {'HELD'} (somebody else rebuilds) | {'CHANGED'} (somebody else has rebuilt).
-- @include keys

local P = prefix_of(KEYS[1])

-- drop_alien(key, kind): what a rebuild does not remove must at least be what it should be.
local function drop_alien(key, kind)
  local found = redis.call('TYPE', key).ok
  if found ~= kind and found ~= 'none' then redis.call('DEL', key) end
end

drop_alien(KEYS[1], 'string')
drop_alien(P .. 'rebuild', 'string')
drop_alien(P .. 'scheduler', 'hash')
drop_alien(P .. 'workers', 'zset')
drop_alien(P .. 'dead_letter', 'list')
drop_alien(P .. 'repairs', 'hash')
local holder = redis.call('GET', P .. 'rebuild')
if holder == ARGV[1] then return {'BEGUN'} end
local own = false
for i = 5, #ARGV do own = own or holder == ARGV[i] end
if holder and not own then return {'HELD'} end
if not own and (redis.call('GET', KEYS[1]) or '') ~= ARGV[2] then return {'CHANGED'} end
redis.call('SET', P .. 'rebuild', ARGV[1], 'EX', ARGV[3])
redis.call('DEL', KEYS[1])
redis.call('HSET', P .. 'scheduler', 'policy', ARGV[4])
return {'BEGUN'}
