#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The NIC driven by the GPU: its price, where it can be asked for and by whom, and what the dump shows.
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
cluster=$topologies/cluster-h100-16.xml
group="--group 0,8,16,24"

# A start-up of 4.5 us in the place of 10: small messages gain what a hop's start-up loses.
# shellcheck disable=SC2086 # a list of options
{
    expect 0 "$PEAL" plan "$cluster" $group -c alltoall -a direct -b 4K:4K --json
    cp out rdma.json
    expect 0 "$PEAL" plan "$cluster" $group -c alltoall -a direct -b 4K:4K -e net=ibgda --json
}
expect_json 'j["rows"][0]["engines"]["net"] == "ibgda"'
expect_json '10 < json.load(open("rdma.json"))["rows"][0]["time_us"] - j["rows"][0]["time_us"] < 12'
expect_json 'j["rows"][0]["bound_us"] <= j["rows"][0]["time_us"]'
# shellcheck disable=SC2086
expect 0 "$PEAL" plan "$cluster" $group -c alltoall -b 4K:4K --json
expect_json 'j["rows"][0]["engines"]["net"] == "rdma"'

# In a plan: proven, shown, read back, and run by the host, where another engine stands in for it.
# shellcheck disable=SC2086
{
    expect 0 "$PEAL" compile "$cluster" $group -c allgather -b 64K:64K -e net=ibgda -o posted.peal
    expect 0 "$PEAL" verify posted.peal
}
expect_out 'proven'
expect 0 "$PEAL" dump posted.peal
expect_out 'put c.* ibgda e'
expect_out 'signal r.* ibgda after e'
cp out posted.txt
expect 0 "$PEAL" asm posted.txt -o again.peal
expect_same posted.peal again.peal
expect 0 "$PEAL" run posted.peal --check --bytes 64K
expect_out 'stand in for .*ibgda'

# What a cluster file measured, and who cannot.
sed 's|</peal>|<cost link="net" engine="ibgda" alpha-us="50"/></peal>|' "$cluster" >slow.xml
cp "$topologies/dgx-h100.xml" .
# shellcheck disable=SC2086
{
    expect 0 "$PEAL" plan slow.xml $group -c alltoall -a direct -b 4K:4K -e net=ibgda --json
    expect_json 'j["rows"][0]["time_us"] > 45'
    expect 2 "$PEAL" plan "$cluster" $group -c alltoall --zero-sm -e net=ibgda
    expect_err 'holds an SM'
}
