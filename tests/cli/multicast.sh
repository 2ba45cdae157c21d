#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Switches that multicast: how a machine is said to have them, and what is made of that.
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
cp "$topologies/dgx-h100.xml" host.xml

expect 0 "$PEAL" topo cluster host.xml --nodes 1 --multicast -o one.xml
grep -q 'multicast="yes"' one.xml || die "the cluster does not say that its switches multicast"
expect 0 "$PEAL" plan one.xml -b 256M:256M --json
expect_json 'j["rows"][0]["algorithm"] == "nvls"'
expect 0 "$PEAL" plan one.xml -b 256M:256M --repeatable --json
expect_json 'j["rows"][0]["algorithm"] != "nvls"'
expect 0 "$PEAL" plan host.xml -b 256M:256M --json
expect_json 'j["rows"][0]["algorithm"] != "nvls"'
expect 3 "$PEAL" plan host.xml -a nvls
expect 0 "$PEAL" run one.xml -a nvls -n 2,3,8 -c allreduce,reduce-scatter,allgather,broadcast,reduce \
    -b 1000,100001 --check
expect_out 'all right'
expect_out 'stand in for sm'
expect 0 "$PEAL" sim one.xml -a nvls -b 1M --json

sed 's/multicast="yes"/multicast="maybe"/' one.xml >wrong.xml
expect 3 "$PEAL" topo wrong.xml
expect_err 'multicast is neither yes nor no'
