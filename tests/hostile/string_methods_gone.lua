-- SPDX-License-Identifier: Apache-2.0
-- fails: rep
string.rep = nil
local s = ("x"):rep(3)
