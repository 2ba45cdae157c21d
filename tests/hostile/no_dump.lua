-- SPDX-License-Identifier: Apache-2.0
-- fails: dump
string.dump(print)
