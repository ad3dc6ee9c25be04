#!/bin/sh
# Builds the packages of one architecture into a directory: drover and drover-agent for Debian, an archive for any other Linux, what
# installs that, and their checksums. The same commit gives the same bytes, with the same compiler and dpkg-deb.
set -eu

usage() {
	echo "usage: package.sh [--binaries DIR] VERSION amd64|arm64 OUT" >&2
	echo "  --binaries DIR   take drover and drover-agent from there, instead of building them" >&2
	exit 2
}
binaries=""
if [ "${1:-}" = --binaries ]; then
	[ $# -ge 2 ] || usage
	binaries=$2
	shift 2
fi
[ $# -eq 3 ] || usage
version=$1 arch=$2 out=$3
case $version in [0-9]*) ;; *) echo "package.sh: version $version: expected it to begin with a digit" >&2; exit 2 ;; esac
case $arch in amd64 | arm64) ;; *) usage ;; esac

root=$(cd "$(dirname "$0")/.." && pwd)
: "${SOURCE_DATE_EPOCH:=$(git -C "$root" log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH
umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
out=$(cd "$out" && pwd)

if [ -z "$binaries" ]; then
	binaries=$work/bin
	export CGO_ENABLED=0 GOWORK=off GOOS=linux GOARCH="$arch"
	(cd "$root" && go build -trimpath -ldflags '-s -w' -o "$binaries/" ./cmd/drover)
	# The agent is on every host, so it is kept small. It is a client of HTTP/1 alone: the code of HTTP/2 would be a thirtieth of it. Functions
	# begin at multiples of 16, as they do on arm64, where amd64 would leave gaps up to the next multiple of 32.
	(cd "$root" && go build -trimpath -tags nethttpomithttp2 -ldflags '-s -w -funcalign=16' -o "$binaries/" ./cmd/drover-agent)
	size=$(stat -c %s "$binaries/drover-agent")
	[ "$size" -le 11750000 ] || { echo "package.sh: drover-agent has $size bytes, expected at most 11750000" >&2; exit 1; }
fi

(cd "$root" && CGO_ENABLED=0 GOOS= GOARCH= go run ./internal/manpages "$work/man")

put() { # put MODE FILE TARGET: a file in a tree
	install -D -m "$1" "$2" "$3"
}
docs() { # docs DIR: what every tree has to say
	put 644 "$root/LICENSE" "$1/copyright"
	for page in "$root"/docs/ops/*.md; do
		put 644 "$page" "$1/ops/${page##*/}"
	done
}
man() { # man PROGRAM DIR: its manual pages
	mkdir -p "$2"
	for page in "$work/man/$1"/*.1; do
		gzip -9n <"$page" >"$2/${page##*/}.gz"
	done
}
deb() { # deb PACKAGE: the package of a tree
	tree=$work/$1 from=$root/deploy/debian/$1
	docs "$tree/usr/share/doc/$1"
	man "$1" "$tree/usr/share/man/man1"
	size=$(du -sk "$tree" | cut -f 1)
	mkdir "$tree/DEBIAN"
	sed "s/@VERSION@/$version/; s/@ARCH@/$arch/; s/@SIZE@/$size/" "$from/control.in" >"$tree/DEBIAN/control"
	put 644 "$from/conffiles" "$tree/DEBIAN/conffiles"
	for script in postinst prerm postrm; do
		put 755 "$from/$script" "$tree/DEBIAN/$script"
	done
	# Several threads would cut the work, and so the bytes, by how many processors there are.
	dpkg-deb --root-owner-group --threads-max=1 --build "$tree" "$out/$1_${version}_$arch.deb" >/dev/null
}

server=$work/drover
put 755 "$binaries/drover" "$server/usr/bin/drover"
for role in server proxy; do
	put 644 "$root/deploy/systemd/drover-$role.service" "$server/usr/lib/systemd/system/drover-$role.service"
	put 640 "$root/deploy/etc/$role.yaml" "$server/etc/drover/$role.yaml"
done
put 644 "$root/deploy/sysusers.d/drover.conf" "$server/usr/lib/sysusers.d/drover.conf"
put 644 "$root/deploy/tmpfiles.d/drover.conf" "$server/usr/lib/tmpfiles.d/drover.conf"
deb drover

agent=$work/drover-agent
put 755 "$binaries/drover-agent" "$agent/usr/bin/drover-agent"
put 644 "$root/deploy/systemd/drover-agent.service" "$agent/usr/lib/systemd/system/drover-agent.service"
put 644 "$root/deploy/etc/agent.conf" "$agent/etc/drover/agent.conf"
put 644 "$root/deploy/tmpfiles.d/drover-agent.conf" "$agent/usr/lib/tmpfiles.d/drover-agent.conf"
deb drover-agent

name=drover-$version-linux-$arch
tree=$work/$name
put 755 "$binaries/drover" "$tree/bin/drover"
put 755 "$binaries/drover-agent" "$tree/bin/drover-agent"
for dir in systemd sysusers.d tmpfiles.d etc; do
	for file in "$root/deploy/$dir"/*; do
		put 644 "$file" "$tree/$dir/${file##*/}"
	done
done
docs "$tree/doc"
man drover "$tree/man/man1"
man drover-agent "$tree/man/man1"
find "$tree" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --format=gnu -cf "$work/tar" "$name"
gzip -n <"$work/tar" >"$out/$name.tar.gz"
put 755 "$root/deploy/install.sh" "$out/install.sh"

cd "$out"
for file in *.deb *.tar.gz install.sh; do
	sha256sum "$file"
done >"$work/sums"
put 644 "$work/sums" SHA256SUMS
