-- SPDX-License-Identifier: Apache-2.0
-- fails: used up its budget
local t = {}
for i = 1, 3000 do t["k" .. i] = i end
local k
repeat k = next(t, k) until not k
