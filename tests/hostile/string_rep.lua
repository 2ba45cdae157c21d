-- SPDX-License-Identifier: Apache-2.0
-- fails: a string of more than
local s = ("x"):rep(1 << 40)
