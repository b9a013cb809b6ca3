-- once.lua: stands behind begin.lua in scripts that do their work once, however many copies of a call come. A lock's owner
-- has a count, by which copies are known; permits and latches have no owner, so a receipt says what a call did. Rule 22.
-- A receipt is a string `call done back of`: the number of the last call that used this key, how much it did, the number
-- that undoes it, and which semaphore or latch of the name it was about (a semaphore by the call that made it, a latch by
-- how the one before it ended). A client uses a key for its next call only when no copy of the last one can be on its way,
-- so the receipt of another call says nothing.
-- Returns what this call did, or nil if no copy of it ran before.
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
-- The error if this user may not call this command (any more), else nil. Asked before the first write, where what was written
-- could not be taken back: a call that is refused has done nothing.
local function forbidden(command, key, ...)
  if redis.acl_check_cmd(command, key, ...) then return nil end
  return 'NOPERM no permission to ' .. command .. ' ' .. key
end
local function is_whole(text)
  return string.match(text, '^%-?%d+$') ~= nil
end
