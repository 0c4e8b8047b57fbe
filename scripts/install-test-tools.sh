#!/usr/bin/env bash
# The programs that the end-to-end tests drive. Without them (or without root to install them) those tests say so and are
# counted as skipped.
#
# --all installs also servers, container engines and a virtual machine with a kernel, and adds a user with subordinate ids for
# the engines. Debian starts a server when it is installed, so --all is for machines that only run tests.
set -euo pipefail
case ${1:-} in -h | --help) sed -n '/^#!/d; /^#/!q; s/^# *//p' "$0" && exit 0 ;; esac
tools=(curl iperf3 ip ping traceroute nc dig setpriv python3 udhcpc dhclient dhcpcd)
packages=(curl iperf3 iproute2 iputils-ping traceroute netcat-openbsd bind9-dnsutils util-linux python3)
clients=(udhcpc isc-dhcp-client dhcpcd-base) # which a later Debian may lack
groups=(packages clients)
if [ "${1:-}" = --all ]; then
    tools+=(git jq wget openssl strace tshark sshd nginx redis-server node go NetworkManager dbus-daemon
        podman buildah rootlesskit newuidmap netavark slirp4netns qemu-system-x86_64 cpio)
    programs=(git jq wget openssl strace tshark openssh-server nginx-light redis-server dbus)
    managers=(network-manager systemd postgresql)
    languages=(nodejs golang-go)
    engines=(podman buildah rootlesskit runc uidmap busybox-static slirp4netns netavark aardvark-dns iptables)
    machine=(qemu-system-x86 cpio "linux-image-cloud-$(dpkg --print-architecture)")
    groups+=(programs managers languages engines machine)
fi
if [ "${1:-}" = --all ] && [ ! -s /etc/subuid ] && [ "$(id -u)" -eq 0 ]; then
    useradd --create-home mbuma-tests || echo "there is no user with subordinate ids: scripts/engines.sh will be skipped" >&2
fi
missing=()
for tool in "${tools[@]}"; do PATH=$PATH:/usr/sbin:/sbin:/usr/lib/podman command -v "$tool" >/dev/null || missing+=("$tool"); done
[ ${#missing[@]} -eq 0 ] && exit 0
wanted=()
for group in "${groups[@]}"; do
    declare -n of_group=$group
    wanted+=("${of_group[@]}")
done
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "missing: ${missing[*]} (install ${wanted[*]}); tests that need them will be skipped" >&2
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
install() { apt-get install -y -q --no-install-recommends "$@" >/dev/null; }
apt-get update -q >/dev/null || echo "apt-get update failed: packages may be old, or missing" >&2
# All at once is faster; if one package is not to be had, the other groups still are.
install "${wanted[@]}" && exit 0
for group in "${groups[@]}"; do
    declare -n of_group=$group
    install "${of_group[@]}" || echo "apt-get can't install ${of_group[*]}: tests that need them will be skipped" >&2
done
