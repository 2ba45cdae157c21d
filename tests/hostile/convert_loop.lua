-- SPDX-License-Identifier: Apache-2.0
-- fails: used up its budget
local s = (" "):rep(200000) .. "1"
while true do for i = 1, s do end end
