-- SPDX-License-Identifier: Apache-2.0
-- fails: too large
string.format("%1000d", 1)
