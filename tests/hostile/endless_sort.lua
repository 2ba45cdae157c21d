-- SPDX-License-Identifier: Apache-2.0
-- fails: used up its budget
local t = {}
for i = 1, 20000 do t[i] = -i end
table.sort(t, function(a, b) for i = 1, 1e6 do end return a < b end)
