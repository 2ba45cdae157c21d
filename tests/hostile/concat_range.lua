-- SPDX-License-Identifier: Apache-2.0
-- fails: not text
table.concat({}, "", 1, 1 << 40)
