-- SPDX-License-Identifier: Apache-2.0
-- fails: random
math.random()
