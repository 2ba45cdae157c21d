#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# The first process of a guest: a software RDMA device on its only interface, then the cases.
# shellcheck shell=dash disable=SC2013 # words are what the kernel's line has
export PATH=/usr/bin:/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/shm
mount -t tmpfs shm /dev/shm
exec >/dev/ttyS0 2>&1 </dev/null

say() {
    read -r up _ </proc/uptime
    echo "time $up $*"
}

role=single
for word in $(cat /proc/cmdline); do
    case $word in role=*) role=${word#role=} ;; esac
done
case $role in
b) own=10.9.0.2 ;;
*) own=10.9.0.1 ;;
esac

/usr/bin/ip link set lo up
echo /bin/modprobe >/proc/sys/kernel/modprobe
# The checksums first: rxe looks for them when a device is added.
for module in virtio_pci virtio_net crc32_generic crc32-pclmul rdma_rxe; do
    modprobe "$module" 2>/dev/null
done
tries=0
until [ -e /sys/class/net/eth0 ] || [ $tries = 50 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
/usr/bin/ip link set eth0 mtu 9000
/usr/bin/ip addr add $own/24 dev eth0
/usr/bin/ip link set eth0 up
/usr/bin/rdma link add rxe0 type rxe netdev eth0 || echo "case device FAILED: no rxe"
# The GID of the IPv4 address comes by and by.
tries=0
until grep -qs 'ffff:0a09' /sys/class/infiniband/rxe0/ports/1/gids/* || [ $tries = 50 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
say "booted as $role"
# shellcheck source=tests/rdma/guest_cases.sh
. /payload/cases.sh
echo "end of cases"
dmesg | grep -iE 'call trace|bug:|rxe' | tail -n 20
sync
poweroff -f
