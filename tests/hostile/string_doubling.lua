-- SPDX-License-Identifier: Apache-2.0
-- fails: a string of more than
local s = "x"
while true do s = s .. s end
