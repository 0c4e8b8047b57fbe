#!/bin/sh
# The critical sections for aarch64, run by an emulated machine with a real kernel (the emulation
# of single processes has no restartable sequences): the unit tests of `percpu`, the storm with its stretched
# sections and its negative control, the tests of sleepers and of stranded items.
#
# Wants Debian packages: qemu-system-arm gcc-aarch64-linux-gnu libc6-dev-arm64-cross cpio.
# Takes a kernel and a shell of Debian's for arm64: `dpkg --add-architecture arm64 && apt-get update`
# first, or give KERNEL=vmlinuz and BUSYBOX=static-busybox. SECONDS_MAX bounds the run, default 900.
set -eu
case ${1:-} in -h | --help) sed -n '/^#!/d; /^#/!q; s/^# *//p' "$0" && exit 0 ;; esac
cd "$(dirname "$0")/.."

TARGET=aarch64-unknown-linux-gnu
OUT=${CARGO_TARGET_DIR:-target}/aarch64-rseq
SYSROOT=/usr/aarch64-linux-gnu/lib
for tool in qemu-system-aarch64 aarch64-linux-gnu-gcc cpio; do
    command -v $tool >/dev/null || {
        echo "skipped: there is no $tool here"
        exit 0
    }
done
mkdir -p "$OUT"

if [ -z "${KERNEL:-}" ] || [ -z "${BUSYBOX:-}" ]; then
    (
        cd "$OUT"
        image=$(apt-cache depends linux-image-arm64:arm64 | sed -n 's/.*Depends: //p' | head -n 1)
        ls linux-image-*.deb busybox-static*.deb >/dev/null 2>&1 ||
            apt-get download -q "$image" busybox-static:arm64
        for deb in linux-image-*.deb busybox-static*.deb; do dpkg-deb -x "$deb" unpacked; done
    )
    KERNEL=$(ls "$OUT"/unpacked/boot/vmlinuz-*)
    BUSYBOX=$(ls "$OUT"/unpacked/bin/busybox "$OUT"/unpacked/usr/bin/busybox 2>/dev/null | head -n 1)
fi

export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
cargo test -q --release -p mbuma-uma --features stretched --target $TARGET --no-run \
    --lib --test storm --test zones --message-format=json |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' >"$OUT/tests"

# The machine's files: a shell, the C library, the tests.
ROOT=$OUT/root
rm -rf "$ROOT"
mkdir -p "$ROOT/bin" "$ROOT/lib" "$ROOT/proc" "$ROOT/sys" "$ROOT/dev" "$ROOT/tmp" "$ROOT/tests"
cp "$BUSYBOX" "$ROOT/bin/busybox"
for lib in ld-linux-aarch64.so.1 libc.so.6 libm.so.6 libgcc_s.so.1; do
    cp -L "$SYSROOT/$lib" "$ROOT/lib/"
done
while read -r test; do
    name=$(basename "$test")
    cp "$test" "$ROOT/tests/${name%-*}"
    aarch64-linux-gnu-strip "$ROOT/tests/${name%-*}"
done <"$OUT/tests"
cat >"$ROOT/init" <<'EOF'
#!/bin/busybox sh
/bin/busybox mount -t proc none /proc
/bin/busybox mount -t devtmpfs none /dev
/bin/busybox mount -t tmpfs none /tmp
/bin/busybox ifconfig lo up 2>/dev/null
cd /tmp
/bin/busybox uname -a
code=0
for test in 'uma percpu' 'zones strand:: sleepers::' storm; do
    echo "== $test"
    RUST_BACKTRACE=0 /tests/$test --nocapture --test-threads=1 || code=1
done
echo "EXIT $code"
/bin/busybox poweroff -f
EOF
chmod +x "$ROOT/init"
(cd "$ROOT" && find . | cpio -o -H newc -R 0:0 2>/dev/null | gzip -1) >"$OUT/initrd"

timeout "${SECONDS_MAX:-900}" qemu-system-aarch64 -M virt -cpu max,pauth-impdef=on -smp 2 -m 2G \
    -accel tcg,thread=multi -nographic -no-reboot -nic none \
    -kernel "$KERNEL" -initrd "$OUT/initrd" -append 'console=ttyAMA0 quiet panic=-1' \
    </dev/null | tee "$OUT/log"
tr -d '\r' <"$OUT/log" | grep -q '^EXIT 0$'
