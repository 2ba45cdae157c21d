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

looks() { # looks CODE {PAGE WIDTH SCHEME COLOURS}...
    local code=$1
    shift
    expect "$code" python3 "$PEAL_SOURCE/tests/support/page_check.py" "$browser" "$@"
}

expect 0 "$PEAL" report "$topologies/dgx-h100.xml" -o node.html
expect 0 "$PEAL" report "$topologies/cluster-h100-16.xml" -c allreduce,alltoall -o cluster.html
expect 0 "$PEAL" report "$amd" -c allreduce,allgather -o mesh.html
looks 0 node.html 1280 light --nvlink,--pcie,--smp,--gpu,--nic,--cpu,--sw \
    node.html 400 dark --gpu,--nic \
    cluster.html 1280 dark --nvlink,--pcie,--smp,--gpu,--nic,--cpu,--sw \
    cluster.html 400 light --gpu \
    mesh.html 1280 light --xgmi,--pcie,--smp,--gpu,--nic,--cpu \
    mesh.html 400 light --gpu

# A report that is not drawn right is seen: texts on each other, boxes without their colour, words
# that can hardly be read, a page that a phone shows a part of.
sed 's/>mlx5_0</>an overlong name of a NIC that has room for no such thing</g' node.html >long.html
sed 's/class="accelerator"/class="box"/' node.html >pale.html
sed 's/--muted:#5d6670/--muted:#b0b0b0/' node.html >faint.html
sed 's/<h1>/<h1 style="white-space:nowrap;min-width:50rem">/' node.html >wide.html
looks 1 long.html 1280 light --gpu pale.html 1280 light --gpu faint.html 1280 light --gpu \
    wide.html 400 light --gpu
expect_out '^long.html .* overlap'
expect_out '^pale.html .* no --gpu'
expect_out '^faint.html .* faint'
expect_out '^wide.html .* wider than the screen'
