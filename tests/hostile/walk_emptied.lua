-- SPDX-License-Identifier: Apache-2.0
-- fails: used up its budget
local t = {}
for i = 1, 200000 do t[i] = i end
for i = 1, 200000 do t[i] = nil end
while true do next(t) end
