-- SPDX-License-Identifier: Apache-2.0
-- fails: used up its budget
table.move({}, 1, 1 << 40, 2)
