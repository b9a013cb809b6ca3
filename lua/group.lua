-- group.lua: many calls at once, each as if it were alone: an error of one changes nothing for the others (rule 26 of
-- docs/PROTOCOL.md). The scripts that it runs stand before it, as bodies.
-- KEYS[i] lock  of call i
-- ARGV[next_word] of each call in turn: a number, and the words that its script takes from the third on; behind those of one
--   that announces stands the channel. The number is (nonce of the call * 8 + how many words follow) * 8 + which body.
-- Announces as announce.lua, each call on its own channel: the one that comes last is empty.
-- Returns {1, nonce, now, then of each call its nonce, status and value}: what its script answers; the value is what
--   stands behind the time, or nil. The status 7 is this one's own: the script raised the error that is the value.
-- Redisson: has none. Each call does what it does alone, the one after the other.
local reply, next_word = {1, nonce, now}, 3
local lock_of_one, words = {}, {}
for i, lock in ipairs(KEYS) do
  local number = tonumber(ARGV[next_word])
  local body = number % 8
  local count = (number - body) / 8 % 8
  local own = (number - body - count * 8) / 64
  for place = 3, count + 2 do
    next_word = next_word + 1
    words[place] = ARGV[next_word]
  end
  next_word = next_word + 1
  lock_of_one[1], channel = lock, words[count + 2]
  local ran, answer = pcall(bodies[body], lock_of_one, words, own)
  local status, value
  if not ran then
    status, value = 7, type(answer) == 'table' and answer.err or tostring(answer)
  elseif type(answer) == 'string' then
    -- `1 nonce at`, and the receivers where it tells them.
    status, value = 1, tonumber(string.match(answer, '^%S+ %S+ %S+ (%S+)$'))
  else
    status, value = answer[1], answer[4]
  end
  reply[3 * i + 1], reply[3 * i + 2], reply[3 * i + 3] = own, status, value or false
end
return reply
