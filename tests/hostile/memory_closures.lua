-- SPDX-License-Identifier: Apache-2.0
-- fails: more than its|used up its budget
local keep
while true do local k = keep; keep = function() return k end end
