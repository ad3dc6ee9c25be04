#!/bin/sh
# Installs what the tests need beyond Go: real daemons to supervise. As root on Debian it installs the packages, without starting
# their services; as an ordinary user it says what is missing.
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
need postgresql /usr/lib/postgresql/*/bin/postgres

[ -n "$missing" ] || exit 0
if [ "$(id -u)" -ne 0 ]; then
	echo "SKIPPED: the tests of real daemons need these packages, and only root can install them:$missing" >&2
	exit 0
fi
if ! command -v apt-get >/dev/null; then
	echo "SKIPPED: the tests of real daemons need these packages (Debian names):$missing" >&2
	exit 0
fi

# A package must not start its service: policy-rc.d is Debian's way to say so.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
	trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
# A broken list of one source must not keep the others from being used.
apt-get update -qq || true
# shellcheck disable=SC2086 # a list of words
apt-get install -y -qq --no-install-recommends $missing
