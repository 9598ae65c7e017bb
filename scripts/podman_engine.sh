#!/bin/sh
# Starts podman's Docker-compatible socket and builds an image from Debian packages, for the tests that need a container
# engine. As root, on Debian: apt-get install podman docker.io debootstrap
#
#   sudo scripts/podman_engine.sh /tmp/engine        # prints the variables to set, and keeps running
#   DOCKER_HOST=… MAINSTAY_TEST_IMAGE=… pytest tests/conformance/test_sandboxes.py tests/acceptance/test_docker_paths.py
#
# The socket's process has a mount namespace of its own with cgroup v2 only, because crun refuses hosts that have both
# versions; containers get no cgroup and this process's resource limits, so that no further capability is needed.
set -eu
folder=${1:?"usage: $0 FOLDER"}
image=mainstay-test:latest
mkdir -p "$folder"
init=$(command -v /usr/libexec/podman/catatonit || command -v docker-init)  # for --init; docker.io brings the second
cat > "$folder/containers.conf" <<CONF
[containers]
cgroups = "disabled"
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
init_path = "$init"
cgroup_manager = "cgroupfs"
events_logger = "file"
CONF
export CONTAINERS_CONF="$folder/containers.conf"
if ! podman image exists "$image"; then
    debootstrap --variant=minbase --include=git stable "$folder/rootfs" > "$folder/debootstrap.log"
    tar -C "$folder/rootfs" -c . | podman import - "$image"
fi
echo "DOCKER_HOST=unix://$folder/podman.sock MAINSTAY_TEST_IMAGE=$image"
exec unshare -m sh -ec '
mount --make-rprivate /
umount -R /sys/fs/cgroup 2>/dev/null || umount -l -R /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
exec podman system service --time=0 "unix://$1/podman.sock"' sh "$folder"
