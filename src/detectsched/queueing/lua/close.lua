-- Close the gate because the data are damaged: they are made anew from PostgreSQL.
-- KEYS[1] generation
-- ARGV[1] generation told
-- Answers: {'CLOSED'} | {'LOST'} (it is closed already, or another life has begun).

if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'LOST'} end
redis.call('DEL', KEYS[1])
return {'CLOSED'}
