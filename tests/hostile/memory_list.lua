-- SPDX-License-Identifier: Apache-2.0
-- fails: more than its|used up its budget
local t = {}
for i = 1, 1e9 do t[i] = i end
