#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest: slow
# peal report as a browser shows it: a node, a cluster and an AMD mesh, on a screen and on a phone,
# light and dark.
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"
browser=$(command -v chromium || command -v chromium-browser || true)
if [ -z "$browser" ] || ! command -v python3 >/dev/null; then
    echo "skipped: no chromium, or no python3"
    exit 77
fi
amd=$(corpus nccl-topo/topo_8p_940.xml)
export HOME=$PWD # where the browser keeps what it keeps

looks() { # looks PAGE WIDTH SCHEME COLOUR...
    expect 0 python3 "$PEAL_SOURCE/tests/support/page_check.py" "$browser" "$@"
}

expect 0 "$PEAL" report "$topologies/dgx-h100.xml" -o node.html
looks node.html 1280 light --nvlink --pcie --smp --gpu --nic --cpu --sw
looks node.html 400 dark --gpu --nic

expect 0 "$PEAL" report "$topologies/cluster-h100-16.xml" -c allreduce,alltoall -o cluster.html
looks cluster.html 1280 dark --nvlink --pcie --smp --gpu --nic --cpu --sw

expect 0 "$PEAL" report "$amd" -c allreduce,allgather -o mesh.html
looks mesh.html 1280 light --xgmi --pcie --smp --gpu --nic --cpu
looks mesh.html 400 light --gpu

# A report that is not drawn right is seen: texts on each other, and boxes without their colour.
sed 's/>mlx5_0</>an overlong name of a NIC that has room for no such thing</g' node.html >bad.html
expect 1 python3 "$PEAL_SOURCE/tests/support/page_check.py" "$browser" bad.html 1280 light --gpu
expect_out 'overlap'
sed 's/class="accelerator"/class="box"/' node.html >bad.html
expect 1 python3 "$PEAL_SOURCE/tests/support/page_check.py" "$browser" bad.html 1280 light --gpu
expect_out 'no --gpu'
