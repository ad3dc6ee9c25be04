#!/bin/sh
# Installs what makes hosts of network namespaces and cuts the links between them.
set -eu
missing=""
command -v ip >/dev/null || missing="$missing iproute2"
command -v iptables >/dev/null || missing="$missing iptables"
[ -n "$missing" ] || exit 0
DEBIAN_FRONTEND=noninteractive apt-get update -qq || true
# shellcheck disable=SC2086 # a list of words
"$(dirname "$0")/apt-install.sh" $missing
