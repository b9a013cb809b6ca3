-- group.lua: many calls at once, each as if it were alone: an error of one changes nothing for the others (rule 26 of
-- docs/PROTOCOL.md). The scripts that it runs stand before it, as bodies.
-- KEYS[i] lock  of call i
-- ARGV[i + 2] call i, five lines: which body, its channel, and the words that its script takes from the third on; what it does
--   not take is empty.
-- Announces as announce.lua, each call on its own channel: the one that comes last is empty.
-- Returns lines: `1 nonce at`, then of each call what its script answers, with a blank between what is a list there, or
--   `7 nonce at error`, which is this one's own: the script raised that error.
-- Redisson: has none. Each call does what it does alone, the one after the other.
local lines = {'1 ' .. nonce .. ' ' .. at}
local lock_of_one, words, body = {}, {}, nil
for i, lock in ipairs(KEYS) do
  lock_of_one[1] = lock
  body, channel, words[3], words[4], words[5] =
    string.match(ARGV[i + 2], '^(.)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)$')
  local ran, answer = pcall(bodies[tonumber(body)], lock_of_one, words)
  if not ran then answer = {7, nonce, at, type(answer) == 'table' and answer.err or tostring(answer)} end
  -- A count of another client's may be any text.
  if type(answer) == 'table' then answer = string.gsub(table.concat(answer, ' '), '\n', ' ') end
  lines[i + 1] = answer
end
return table.concat(lines, '\n')
