-- SPDX-License-Identifier: Apache-2.0
-- fails: a string of more than
local s = "x"
while true do pcall(function() s = s .. s end) end
