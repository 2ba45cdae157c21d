-- SPDX-License-Identifier: Apache-2.0
-- fails: a string of more than
local t = {}
for i = 1, 10000 do t[i] = ("x"):rep(100) end
table.concat(t)
