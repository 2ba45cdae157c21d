-- SPDX-License-Identifier: Apache-2.0
-- fails: used up its budget
local a, b = ("x"):rep(200000) .. "a", ("x"):rep(200000) .. "b"
while true do local c = a < b end
