-- SPDX-License-Identifier: Apache-2.0
-- fails: more than its|used up its budget
local function f(n) return 1 + f(n + 1) end
f(1)
