-- SPDX-License-Identifier: Apache-2.0
-- fails: more than 250 results
table.unpack({}, 1, 1e7)
