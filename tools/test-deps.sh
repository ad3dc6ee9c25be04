#!/bin/sh
# Installs what the tests need beyond Go: real daemons to supervise. As root on Debian it installs the packages, without starting
# their services; as an ordinary user it says which tests are left out (internal/test/harness decides that for each).
set -eu

missing=""
need() { # need PACKAGE PATH...: one of the paths must be an executable
	package=$1
	shift
	for path in "$@"; do
		[ -x "$path" ] && return 0
	done
	missing="$missing $package"
}

need nginx-light /usr/sbin/nginx
need redis-server /usr/bin/redis-server
need memcached /usr/bin/memcached
need haproxy /usr/sbin/haproxy
need postgresql /usr/lib/postgresql/*/bin/postgres
need supervisor /usr/bin/supervisord
need prometheus-alertmanager /usr/bin/prometheus-alertmanager
need systemd /lib/systemd/systemd
need e2fsprogs /sbin/mkfs.ext4 /usr/sbin/mkfs.ext4
need mount /sbin/losetup /usr/sbin/losetup
need iproute2 /sbin/ip /usr/sbin/ip /bin/ip
need iptables /sbin/iptables /usr/sbin/iptables
need curl /usr/bin/curl
need strace /usr/bin/strace
need python3-minimal /usr/bin/python3
need rpm /usr/bin/rpm
need cpio /usr/bin/cpio /bin/cpio
need gpg /usr/bin/gpg
need tmux /usr/bin/tmux
need openssh-client /usr/bin/ssh-keygen
need chromium-headless-shell /usr/bin/chromium-headless-shell
[ -e /usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc ] || missing="$missing fonts-noto-cjk"

if [ "$(id -u)" -ne 0 ]; then
	echo "LEFT OUT: the tests that run commands as other accounts, redis and PostgreSQL among them: they need root" >&2
	[ -z "$missing" ] || echo "LEFT OUT: the tests of what is not installed, and only root can install:$missing" >&2
	exit 0
fi
[ -n "$missing" ] || exit 0
if ! command -v apt-get >/dev/null; then
	echo "the tests of real daemons need these packages (Debian names):$missing" >&2
	exit 1
fi

# A broken list of one source must not keep the others from being used.
DEBIAN_FRONTEND=noninteractive apt-get update -qq || true
# shellcheck disable=SC2086 # a list of words
"$(dirname "$0")/apt-install.sh" $missing
