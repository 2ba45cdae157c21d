-- SPDX-License-Identifier: Apache-2.0
-- fails: a string of more than
local f = ("%99d"):rep(4000)
local t = {}
for i = 1, 200 do t[i] = i end
for i = 1, 100 do f = f .. f end
