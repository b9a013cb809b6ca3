-- group.lua: many calls at once, each as if it were alone: an error of one changes nothing for the others (rule 26 of
-- docs/PROTOCOL.md). The scripts that it runs stand before it, as bodies.
-- KEYS[i] lock  of call i
-- ARGV[next_word] of each call in turn: a number, and the words that its script takes from the third on; behind those of one
--   that announces stands the channel. The number is which body * 8 + how many words follow.
-- Announces as announce.lua, each call on its own channel: the one that comes last is empty.
-- Returns lines: `1 nonce at`, then of each call what its script answers, with a blank between what is a list there. The
--   status 7 is this one's own: the script raised the error that ends the line.
-- Redisson: has none. Each call does what it does alone, the one after the other.
local lines, next_word = {'1 ' .. nonce .. ' ' .. at}, 3
local lock_of_one, words = {}, {}
for i, lock in ipairs(KEYS) do
  local number = tonumber(ARGV[next_word])
  local count = number % 8
  for place = 3, count + 2 do
    next_word = next_word + 1
    words[place] = ARGV[next_word]
  end
  next_word = next_word + 1
  lock_of_one[1], channel = lock, words[count + 2]
  local ran, answer = pcall(bodies[(number - count) / 8], lock_of_one, words)
  if not ran then answer = {7, nonce, at, type(answer) == 'table' and answer.err or tostring(answer)} end
  -- A count of another client's may be any text.
  if type(answer) == 'table' then answer = string.gsub(table.concat(answer, ' '), '\n', ' ') end
  lines[i + 1] = answer
end
return table.concat(lines, '\n')
