#!/bin/sh
# Container engines with mbuma in the place of slirp4netns: the command lines that they really use, by the engines themselves.
#
# Wants root, an ordinary user with subordinate ids (ENGINE_USER, else the first in /etc/subuid) and Debian packages: podman
# buildah rootlesskit runc uidmap busybox-static slirp4netns; netavark, aardvark-dns and iptables for podman's bridge network.
# What is not installed is skipped. Nothing of the machine changes: storage, configuration and /dev/net/tun are the script's own.
# MBUMA is the program to test, default target/debug/mbuma.
set -eu
case ${1:-} in -h | --help) sed -n '/^#!/d; /^#/!q; s/^# *//p' "$0" && exit 0 ;; esac

has() { command -v "$1" >/dev/null; }

# Each row runs a script with the home's bin before the system's; its output must have every word.
row() { # NAME PROGRAM WORD SCRIPT
    has "$2" || { echo "skipped: $1: there is no $2 here" && return 0; }
    if attempt "$3" "$4"; then
        echo "ok: $1"
        return 0
    fi
    saved=$out
    # A machine on which the original fails too says nothing about mbuma.
    mv bin/slirp4netns bin/mbuma
    ln -s /usr/bin/slirp4netns bin/slirp4netns
    if has /usr/bin/slirp4netns && ! attempt "$3" "$4"; then
        echo "skipped: $1: it fails with slirp4netns as well: $(echo "$out" | tail -n 1)"
    else
        echo "FAILED: $1: $saved"
        failed=1
    fi
    mv bin/mbuma bin/slirp4netns
}

attempt() { # WORD SCRIPT
    out=$(timeout 60 sh -c "$2" 2>&1) || return 1
    case $out in *"$1"*) return 0 ;; esac
    return 1
}

rows() {
    failed=0
    page='wget -q -O - http://10.0.2.2/ | tail -n 1'
    run='podman run --rm --pull=never'
    # The other side may be long in starting: `attempt` says how long.
    client="until busybox nc -w 5 127.0.0.1 $PORT </dev/null | grep published; do sleep 0.2; done"
    row 'podman, slirp4netns' podman '</html>' "$run --network slirp4netns mini sh -c '$page'"
    row 'podman, no IPv6, an MTU' podman 'mtu 1500' \
        "$run --network slirp4netns:mtu=1500,enable_ipv6=false mini ip addr show tap0"
    row 'podman, a network of its own' podman 192.168.77.100 \
        "$run --network slirp4netns:cidr=192.168.77.0/24 mini ip addr show tap0"
    row 'podman, a port by the API' podman published "
        podman run -d --name api --pull=never --network slirp4netns:port_handler=slirp4netns -p 127.0.0.1:$PORT:80 mini \
            sh -c 'while echo published | nc -l -p 80; do :; done' >/dev/null
        $client; podman rm -f -t 0 api >/dev/null"
    row 'podman, the isolation' podman 'Seccomp:	2' "
        podman run -d --name held --pull=never --network slirp4netns mini sleep 60 >/dev/null
        for pid in \$(pgrep -u $(id -u) mbuma-gateway) \$(pgrep mbuma-gateway); do
            n=0; until grep 'Seccomp:	2' /proc/\$pid/status || [ \$((n+=1)) -gt 50 ]; do sleep 0.2; done
            grep CapEff: /proc/\$pid/status; done
        podman rm -f -t 0 held >/dev/null"
    row 'buildah, RUN' buildah tap0 "
        printf 'FROM localhost/mini\nRUN ip addr show tap0 && $page\n' >Containerfile
        buildah build --isolation=rootless --runtime=runc --no-cache ."
    row 'rootlesskit' rootlesskit '</html>' \
        "rootlesskit --net=slirp4netns --copy-up=/etc --disable-host-loopback \
            sh -c 'until busybox $page | grep html; do sleep 0.2; done'"
    row 'rootlesskit, isolation and ports by the API' rootlesskit published "
        rootlesskit --net=slirp4netns --copy-up=/etc --cidr=10.9.0.0/24 --mtu=1500 --port-driver=slirp4netns \
            --slirp4netns-sandbox=true --slirp4netns-seccomp=true -p 127.0.0.1:$PORT:80/tcp \
            sh -c 'echo published | busybox nc -l -p 80' &
        $client; wait"
    if has netavark || [ -x /usr/lib/podman/netavark ]; then
        row 'podman, a bridge' podman '</html>' \
            "podman network create n1 >/dev/null 2>&1; $run --network n1 mini sh -c '$page'"
    else
        echo 'skipped: podman, a bridge: there is no netavark here'
    fi
    exit $failed
}

prepare() {
    mkdir -p .config/containers root/bin
    cat >.config/containers/containers.conf <<CONF
[engine]
events_logger = "file"
cgroup_manager = "cgroupfs"
runtime = "runc"
network_cmd_path = "$HOME/bin/slirp4netns"
CONF
    printf '[storage]\ndriver = "vfs"\n' >.config/containers/storage.conf
    cp "$(command -v busybox)" root/bin/busybox
    for name in sh ip wget tail nc sleep echo; do ln -sf busybox root/bin/$name; done
    if has podman; then tar -C root -c . | podman import -q - mini >/dev/null 2>&1; fi
}

case ${1:-} in
rows)
    cd "$HOME"
    prepare
    rows
    ;;
in-namespace)
    mount -t tmpfs -o mode=755 none /dev/net
    mknod -m 666 /dev/net/tun c 10 200
    setpriv --reuid "$2" --regid "$2" --init-groups env HOME="$3" XDG_RUNTIME_DIR="$3/r" PORT=18765 \
        PATH="$3/bin:$PATH" sh "$4" rows
    ;;
*)
    cd "$(dirname "$0")/.."
    mbuma=$(realpath "${MBUMA:-${CARGO_TARGET_DIR:-target}/debug/mbuma}")
    [ "$(id -u)" = 0 ] || { echo 'skipped: it takes root' && exit 0; }
    user=${ENGINE_USER:-$(sed -n '1s/:.*//p' /etc/subuid 2>/dev/null || true)}
    if [ -z "$user" ] || ! has unshare || ! has busybox; then
        echo 'skipped: there is no user with subordinate ids, no unshare, or no busybox'
        exit 0
    fi
    # Short: podman puts sockets with long names below it, and a socket's path has 107 characters at most.
    home=$(mktemp -d /tmp/mbe.XXXXXX)
    trap 'rm -rf "$home"' EXIT
    mkdir "$home/bin" "$home/r"
    for name in slirp4netns pasta; do cp "$mbuma" "$home/bin/$name"; done
    cp "$0" "$home/engines.sh" 2>/dev/null || cp scripts/engines.sh "$home/engines.sh"
    chmod -R a+rX "$home"
    chown -R "$user" "$home"
    unshare -m --propagation private sh "$home/engines.sh" in-namespace "$user" "$home" "$home/engines.sh"
    ;;
esac
