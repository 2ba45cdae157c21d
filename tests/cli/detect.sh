#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# peal topo detect: machines made of files, and this one.
# shellcheck source=tests/support/cli.sh
. "$PEAL_SOURCE/tests/support/cli.sh"

put() { # put FILE TEXT: below the root that is made
    mkdir -p "$(dirname "$root/$1")"
    printf '%s\n' "$2" >"$root/$1"
}

# pci PATH CLASS VENDOR DEVICE NUMA [SPEED WIDTH]: a device where it hangs, and its link
pci() {
    local at=sys/devices/$1
    put "$at/class" "$2"
    put "$at/vendor" "$3"
    put "$at/device" "$4"
    put "$at/subsystem_vendor" "$3"
    put "$at/subsystem_device" 0x0001
    put "$at/numa_node" "$5"
    if [ $# -gt 5 ]; then
        put "$at/max_link_speed" "$6"
        put "$at/max_link_width" "$7"
        put "$at/current_link_speed" "2.5 GT/s PCIe"
        put "$at/current_link_width" "$7"
    fi
    mkdir -p "$root/sys/bus/pci/devices"
    ln -s "../../../devices/$1" "$root/sys/bus/pci/devices/${1##*/}"
}

machine() { # machine NAME VENDOR FAMILY MODEL NODES
    root=$PWD/$1
    put proc/sys/kernel/arch x86_64
    put proc/cpuinfo "$(for cpu in 0 1 2 3; do
        printf 'processor\t: %s\nvendor_id\t: %s\ncpu family\t: %s\nmodel\t\t: %s\nmodel name\t: x\n\n' \
            $cpu "$2" "$3" "$4"
    done)"
    for ((node = 0; node < $5; node++)); do put sys/devices/system/node/node$node/cpumap ff; done
}

rdma() { # rdma NAME PCI RATE GUID
    put "sys/class/infiniband/$1/ports/1/rate" "$3 Gb/sec (4X NDR)"
    put "sys/class/infiniband/$1/ports/1/state" "4: ACTIVE"
    put "sys/class/infiniband/$1/sys_image_guid" "$4"
    ln -s "../../../devices/$2" "$root/sys/class/infiniband/$1/device"
}

# Two sockets, below each a root port, a switch with its two kinds of ports, two H100 and a NIC
# with an interface of its own, one switch behind a slow port; and what is no accelerator.
machine h100 GenuineIntel 6 143 2
fast="32.0 GT/s PCIe"
for node in 0 1; do
    up=pci000$node:00/000$node:00:01.0
    pci $up 0x060400 0x8086 0x352a $node "$fast" 16
    pci $up/000$node:01:00.0 0x060400 0x1000 0xc030 $node "$fast" 16
    for slot in 0 1 2; do
        pci $up/000$node:01:00.0/000$node:02:0$slot.0 0x060400 0x1000 0xc030 $node "$fast" $((slot == 1 ? 8 : 16))
    done
    pci $up/000$node:01:00.0/000$node:02:00.0/000$node:03:00.0 0x030200 0x10de 0x2330 $node "$fast" 16
    pci $up/000$node:01:00.0/000$node:02:01.0/000$node:04:00.0 0x030200 0x10de 0x2330 $node "$fast" 16
    pci $up/000$node:01:00.0/000$node:02:02.0/000$node:05:00.0 0x020700 0x15b3 0x1021 $node "$fast" 16
    rdma mlx5_$node $up/000$node:01:00.0/000$node:02:02.0/000$node:05:00.0 400 "0200:0000:0000:010$node"
    put sys/class/net/ib$node/speed 400000
    ln -s ../../../devices/$up/000$node:01:00.0/000$node:02:02.0/000$node:05:00.0 \
        "$root/sys/class/net/ib$node/device"
done
pci pci0000:00/0000:00:1f.0 0x030000 0x1a03 0x2000 0
put sys/class/net/lo/speed 10000
expect 0 "$PEAL" topo detect --sysroot "$root"
cp out h100.xml
[ "$(grep -c '<pci ' out)" = 8 ] || die "not two switches, four boards and two NICs"
expect_out 'busid="0000:04:00.0" .* link_speed="32.0 GT/s PCIe" link_width="8"'
expect_out '<cpu numaid="1" affinity="ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">'
expect_out '<net name="mlx5_1" dev="1" speed="400000" port="1" guid="0x0200000000000101"/>'
if grep -q '2.5 GT/s\|1a03\|name="lo"\|name="ib0"' out; then die "what does not belong there"; fi
expect 0 "$PEAL" topo h100.xml --json
expect_json 'len(j["ranks"]) == 4 and [r["numa"] for r in j["ranks"]] == [0, 0, 1, 1]'
expect_json 'all(r["model"] == "sm_90" for r in j["ranks"]) and len(j["nics"]) == 2'
expect_json '[r["nic_name"] for r in j["ranks"]] == ["mlx5_0"] * 2 + ["mlx5_1"] * 2'
expect_json 'not j["warnings"] or all("less than" in w["text"] for w in j["warnings"])'
expect 0 "$PEAL" plan h100.xml --bytes 1M
expect 0 "$PEAL" topo detect --sysroot "$root" -o again.xml
expect_same h100.xml again.xml

# AMD's accelerators, each joined to the three others, as the kernel's driver tells; on sockets
# alone a NIC without a rate that is known.
machine mi300 AuthenticAMD 25 17 1
for gpu in 1 2 3 4; do
    pci pci0000:00/0000:00:0$gpu.0 0x060400 0x1022 0x14ab 0 "$fast" 16
    pci pci0000:00/0000:00:0$gpu.0/0000:0$gpu:00.0 0x120000 0x1002 0x74a1 0 "$fast" 16
    nodes=sys/class/kfd/kfd/topology/nodes
    put $nodes/$gpu/gpu_id 100$gpu
    put $nodes/$gpu/properties "simd_count 1216
gfx_target_version 90402
location_id $((gpu << 8))
domain 0"
    put $nodes/$gpu/io_links/0/properties "type 2
node_to 0"
    link=1
    for to in 1 2 3 4; do
        [ $to = $gpu ] && continue
        put $nodes/$gpu/io_links/$link/properties "type 11
node_to $to"
        link=$((link + 1))
    done
done
put $nodes/0/gpu_id 0
put $nodes/0/properties "cpu_cores_count 96
gfx_target_version 0"
pci pci0000:00/0000:00:09.0 0x020000 0x8086 0x1592 0
mkdir -p "$root/sys/class/net/eth0"
ln -s ../../../devices/pci0000:00/0000:00:09.0 "$root/sys/class/net/eth0/device"
expect 0 "$PEAL" topo detect --sysroot "$root" -o mi300.xml
expect 0 "$PEAL" topo mi300.xml --json
expect_json 'j["dialect"] == "rccl" and [r["model"] for r in j["ranks"]] == ["gfx942"] * 4'
expect_json 'sum(l["class"] == "xgmi" for l in j["links"]) == 12'
expect_json '[r["busid"] for r in j["ranks"]] == ["0000:0%d:00.0" % g for g in (1, 2, 3, 4)]'

# No accelerators: ranks on its cores, or as many as asked for, and NICs whose rate is known.
machine plain ARM 0 0 1
pci pci0000:00/0000:00:01.0 0x020000 0x15b3 0x1017 0
rdma mlx5_0 pci0000:00/0000:00:01.0 100 "0200:0000:0000:0100"
expect 0 "$PEAL" topo detect --sysroot "$root" -o plain.xml
expect 0 "$PEAL" topo plain.xml --json
expect_json 'len(j["ranks"]) == 4 and j["nics"][0]["gbits" if "gbits" in j["nics"][0] else "speed_gbits"] == 100'
expect 0 "$PEAL" topo detect --sysroot "$root" --ranks 3 -o plain.xml
expect 0 "$PEAL" run plain.xml --bytes 4K --check
expect_out '3 ranks|by 3'

# Nothing at all: what is not there is not needed.
mkdir empty
expect 0 "$PEAL" topo detect --sysroot "$PWD/empty"
expect_out '<host ranks="1"/>'

# This machine.
expect 0 "$PEAL" topo detect -o this.xml
expect 0 "$PEAL" topo this.xml

expect 2 "$PEAL" topo detect --ranks 0
expect 2 "$PEAL" topo detect --json
expect 2 "$PEAL" topo detect h100.xml
expect 2 "$PEAL" topo h100.xml --sysroot /
