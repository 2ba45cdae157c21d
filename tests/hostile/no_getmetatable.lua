-- SPDX-License-Identifier: Apache-2.0
-- fails: getmetatable
getmetatable("").__index = nil
