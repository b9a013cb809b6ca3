-- once.lua: stands behind begin.lua in scripts that do their work once, however many copies of a call come.
-- A receipt is a string `call done back of`: which call of its lane did something, how much, what takes that back, and
-- for a latch the end of the one before, which tells it from the next. Only the last call of a lane can have copies on
-- their way, so one of an earlier call counts as none. Rule 22.
local function done_before(receipt, call)
  local found = redis.call('GET', receipt)
  if not found then return nil end
  local last, done, back, of = string.match(found, '^(%d+) (%d+) (%-?%d+) (.*)$')
  if last ~= call then return nil end
  return tonumber(done), back, of
end
-- The error of a refusal, or nil.
local function write_receipt(receipt, call, done, back, ms, of)
  local set = redis.pcall('SET', receipt, string.format('%s %d %.0f %s', call, done, back, of or ''), 'PX', ms)
  return set.err
end
local function is_whole(text)
  return string.match(text, '^%-?%d+$') ~= nil
end
