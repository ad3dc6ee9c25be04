#!/bin/sh
# Builds what a release has for one architecture into a directory: drover and drover-agent as deb and rpm, an archive for any other
# Linux, what installs that, an image of the server, bills of materials, and the checksums of all files. The same commit gives the same bytes,
# with the same compiler. The tools are those of tools/pack/go.mod; no daemon and no tool of a distribution is needed.
set -eu

usage() {
	echo "usage: package.sh [--binaries DIR] [--fast] VERSION amd64|arm64 OUT" >&2
	echo "  --binaries DIR   take drover and drover-agent from there, instead of building them" >&2
	echo "  --fast           compress as little as possible, for what is installed once" >&2
	echo "RPM_KEY=FILE in the environment, an OpenPGP key, signs the rpms." >&2
	exit 2
}
binaries="" deb_compression=xz rpm_compression=zstd:19 level=9
while [ $# -gt 3 ]; do
	case $1 in
	--binaries)
		binaries=$(cd "$2" && pwd)
		shift
		;;
	--fast) deb_compression=none rpm_compression=gzip:1 level=1 ;;
	*) usage ;;
	esac
	shift
done
[ $# -eq 3 ] || usage
version=$1 arch=$2 out=$3
case $version in [0-9]*) ;; *) echo "package.sh: version $version: expected it to begin with a digit" >&2; exit 2 ;; esac
case $arch in
amd64) machine=x86_64 ;;
arm64) machine=aarch64 ;;
*) usage ;;
esac

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
	echo "drover-agent $arch: $(stat -c %s "$binaries/drover-agent") bytes"
fi

(cd "$root" && CGO_ENABLED=0 GOOS= GOARCH= go run ./internal/manpages "$work/man")
gzip -9n "$work/man"/*/*.1

put() { # put MODE FILE TARGET: a file in a tree
	install -D -m "$1" "$2" "$3"
}
docs() { # docs DIR: what every tree has to say
	put 644 "$root/LICENSE" "$1/copyright"
	for page in "$root"/docs/ops/*.md; do
		put 644 "$page" "$1/ops/${page##*/}"
	done
}
tools() { # tools COMMAND...: the go command for the machine that builds, with the module of the tools
	(cd "$root/tools/pack" && CGO_ENABLED=0 GOWORK=off GOOS="" GOARCH="" go "$@")
}
nfpm=$(tools tool -n nfpm)
package() { # package PROGRAM: its bill of materials, and its packages by deploy/packages
	bill=$work/sbom/$1.cdx.json
	mkdir -p "$work/sbom"
	tools run ./sbom -version "$version" -license "$root/LICENSE" -goroot "$(go env GOROOT)" -modcache "$(go env GOMODCACHE)" \
		"$binaries/$1" >"$bill"
	put 644 "$bill" "$out/$1-$version-linux-$arch.cdx.json"
	sed "s|@ARCH@|$arch|; s|@VERSION@|$version|; s|@BINARIES@|$binaries|; s|@WORK@|$work|; s|@RPM_KEY@|${RPM_KEY:-}|
		s|@DEB_COMPRESSION@|$deb_compression|; s|@RPM_COMPRESSION@|$rpm_compression|" "$root/deploy/packages/$1.yaml" >"$work/$1.yaml"
	pack "$1" deb "$1_${version}_$arch.deb"
	pack "$1" rpm "$1-$version-1.$machine.rpm"
}
pack() { # pack PROGRAM FORMAT FILE: from the top, where the paths of the description begin
	(cd "$root" && "$nfpm" package --config "$work/$1.yaml" --packager "$2" --target "$out/$3" >"$work/nfpm" 2>&1) || {
		cat "$work/nfpm" >&2
		exit 1
	}
}

package drover
package drover-agent
tools run ./image -binary "$binaries/drover" -arch "$arch" -version "$version" -level "$level" -out "$out/drover-$version-image-$arch.tar" \
	-add "$root/LICENSE:/usr/share/doc/drover/copyright" -add "$work/sbom/drover.cdx.json:/usr/share/doc/drover/sbom.cdx.json"

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
for program in drover drover-agent; do
	put 644 "$work/sbom/$program.cdx.json" "$tree/doc/$program.cdx.json"
done
mkdir -p "$tree/man/man1"
cp -R "$work/man/drover/." "$work/man/drover-agent/." "$tree/man/man1"
find "$tree" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --format=gnu -cf "$work/tar" "$name"
gzip -n "-$level" <"$work/tar" >"$out/$name.tar.gz"
put 755 "$root/deploy/install.sh" "$out/install.sh"
put 644 "$root/deploy/compose.yaml" "$out/compose.yaml"

cd "$out"
for file in *.deb *.rpm *.tar.gz *.tar *.cdx.json install.sh compose.yaml; do
	sha256sum "$file"
done >"$work/sums"
put 644 "$work/sums" SHA256SUMS
