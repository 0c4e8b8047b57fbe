#!/usr/bin/env bash
# The programs that the end-to-end tests drive. Without them (or without root to install them) those
# tests say so and are counted as skipped.
set -euo pipefail
case ${1:-} in -h | --help) sed -n '/^#!/d; /^#/!q; s/^# *//p' "$0" && exit 0 ;; esac
tools=(curl iperf3 ip ping traceroute nc dig setpriv python3 udhcpc dhclient dhcpcd)
packages=(curl iperf3 iproute2 iputils-ping traceroute netcat-openbsd bind9-dnsutils util-linux python3)
clients=(udhcpc isc-dhcp-client dhcpcd-base)
missing=()
for tool in "${tools[@]}"; do command -v "$tool" >/dev/null || missing+=("$tool"); done
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "missing: ${missing[*]} (install ${packages[*]} ${clients[*]}); tests that need them will be skipped" >&2
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
install() {
    apt-get install -y -q --no-install-recommends "$@" >/dev/null ||
        echo "apt-get can't install $*: tests that need them will be skipped" >&2
}
apt-get update -q >/dev/null || echo "apt-get update failed: packages may be old, or missing" >&2
install "${packages[@]}"
# DHCP clients, which a later Debian may lack.
install "${clients[@]}"
