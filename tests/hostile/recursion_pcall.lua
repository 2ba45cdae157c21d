-- SPDX-License-Identifier: Apache-2.0
-- fails: C stack overflow|used up its budget|error in error
local function f() local ok, e = pcall(f); if not ok then error(e, 0) end end
f()
error("the C stack overflow was caught, budget")
