-- once.lua: stands behind begin.lua in scripts that do their work once, however many copies of a call come.
-- A receipt is a string `call done back of`: the last call that used this key, how much it did, the number that undoes it,
-- and which semaphore or latch of the name that was: by which call the semaphore was made; how the latch before it ended. A
-- client uses the key for its next call only when no copy of the last one can be on its way, so what an earlier call wrote
-- counts as nothing. Rule 22.
-- What this call did, if a copy of it ran before.
local function done_before(receipt, call)
  local found = redis.call('GET', receipt)
  if not found then return nil end
  local last, done, back, of = string.match(found, '^(%d+) (%d+) (%-?%d+) (.*)$')
  if last ~= call then return nil end
  return tonumber(done), back, of
end
-- Returns the error if the server refuses the write, else nil.
local function write_receipt(receipt, call, done, back, ms, of)
  local set = redis.pcall('SET', receipt, string.format('%s %d %.0f %s', call, done, back, of or ''), 'PX', ms)
  return set.err
end
local function is_whole(text)
  return string.match(text, '^%-?%d+$') ~= nil
end
