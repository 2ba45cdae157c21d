-- SPDX-License-Identifier: Apache-2.0
-- fails: used up its budget|more than its
local all = {}
while true do all[#all + 1] = coroutine.create(print) end
