-- SPDX-License-Identifier: Apache-2.0
-- fails: used up its budget
local s, p = ("a"):rep(200000), ("a"):rep(1000) .. "b"
while true do s:find(p, 1, true) end
