-- SPDX-License-Identifier: Apache-2.0
-- fails: setmetatable
setmetatable({}, {__gc = function() while true do end end})
