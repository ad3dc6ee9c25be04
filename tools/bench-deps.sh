#!/bin/sh
# Installs the supervisors that drover is compared with, without starting their services: from Debian's packages, and pm2 by npm,
# process-compose and the Go supervisord by the module proxy, below DIR. Why one cannot be had is left in DIR/NAME.why; the
# comparison then goes without it, and says so.
set -u
dir=${1:?usage: bench-deps.sh DIR}
mkdir -p "$dir"
rm -f "$dir"/*.why

missing() { # missing NAME: the end of its log is why
	why=$(tail -n 2 "$dir/$1.log" | tr -s '\n\t ' ' ' | sed 's/^ //; s/ $//; s,https://[^ ]*: ,it: ,')
	printf '%s\n' "$why" >"$dir/$1.why"
	echo "$1 cannot be had: $why" >&2
}
for package in supervisor monit runit s6 daemontools systemd strace; do
	dpkg -s "$package" >/dev/null 2>&1 && continue
	"$(dirname "$0")/apt-install.sh" "$package" >"$dir/$package.log" 2>&1 || missing "$package"
done
if [ ! -x "$dir/pm2/node_modules/.bin/pm2" ]; then
	npm install --silent --no-fund --no-audit --prefix "$dir/pm2" pm2@7.0.4 >"$dir/pm2.log" 2>&1 || missing pm2
fi
from_module() { # from_module PACKAGE@VERSION NAME
	[ -x "$dir/$2" ] && return
	mkdir -p "$dir/build"
	if GOBIN="$dir/build" GOFLAGS=-mod=mod CGO_ENABLED=0 go install "$1" >"$dir/$2.log" 2>&1; then
		mv "$dir"/build/* "$dir/$2"
	else
		missing "$2"
	fi
}
from_module github.com/ochinchina/supervisord@latest go-supervisord
from_module github.com/f1bonacc1/process-compose@latest process-compose
