#!/bin/sh
# Signs the checksums of a release, in the directory where package.sh has written them: SHA256SUMS.sig is a signature of OpenSSH, which
# docs/ops/install.md says how to verify. The key may be a file, or the public half of a key that an agent or a token holds.
set -eu

usage() {
	echo "usage: sign.sh KEY DIR      writes DIR/SHA256SUMS.sig" >&2
	echo "       sign.sh --try KEY    only tries the key" >&2
	exit 2
}
[ $# -eq 2 ] || usage
sign() { # sign KEY: what is read from standard input
	ssh-keygen -q -Y sign -n drover-release -f "$1" || {
		echo "sign.sh: cannot sign with $1: expected a key of ssh-keygen -t ed25519" >&2
		exit 1
	}
}
if [ "$1" = --try ]; then
	sign "$2" </dev/null >/dev/null
	exit 0
fi
cd "$2"
sha256sum --check --quiet SHA256SUMS
sign "$1" <SHA256SUMS >SHA256SUMS.new
mv SHA256SUMS.new SHA256SUMS.sig
