-- SPDX-License-Identifier: Apache-2.0
-- fails: used up its budget
local function h(e) return h(error("again")) end
for i = 1, 1e9 do xpcall(error, h) end
