-- SPDX-License-Identifier: Apache-2.0
-- fails: no fixed order
local t = {[{}] = 1, [{}] = 2}
for k in pairs(t) do end
