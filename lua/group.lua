-- group.lua: many calls at once, each as if it were alone: an error of one changes nothing for the others (rule 26 of
-- docs/PROTOCOL.md). The scripts that it runs stand before it, as bodies.
-- KEYS[i] lock  of call i
-- ARGV[i + 2] call i, five lines: which body, its channel, and the words that its script takes from the third on; what it does
--   not take is empty.
-- Announces as announce.lua, each call on its own channel: the one that comes last is empty.
-- Returns lines: `1 nonce at`, then of each call what its script answers, with a blank between what is a list there, or
--   `7 nonce at error`, which is this one's own: the script raised that error. Nonce and time are left out of these lines,
--   and the blanks around them are not: all have those of the first.
-- Redisson: has none. Each call does what it does alone, the one after the other.
local lines = {'1 ' .. nonce .. ' ' .. at}
nonce, at = '', ''
-- One pattern for all five lines, and a number made of a text, take the server longer (docs/PERFORMANCE.md).
local find, sub, byte = string.find, string.sub, string.byte
local zero = byte('0')
local lock_of_one, words = {}, {}
for i, lock in ipairs(KEYS) do
  local call = ARGV[i + 2]
  local first = find(call, '\n', 3)
  local second = find(call, '\n', first + 1)
  local third = find(call, '\n', second + 1)
  lock_of_one[1], channel = lock, sub(call, 3, first - 1)
  words[3], words[4], words[5] = sub(call, first + 1, second - 1), sub(call, second + 1, third - 1), sub(call, third + 1)
  local ran, answer = pcall(bodies[byte(call) - zero], lock_of_one, words)
  if not ran then answer = {7, nonce, at, type(answer) == 'table' and answer.err or tostring(answer)} end
  -- A count of another client's may be any text.
  if type(answer) == 'table' then answer = string.gsub(table.concat(answer, ' '), '\n', ' ') end
  lines[i + 1] = answer
end
return table.concat(lines, '\n')
