#!/usr/bin/env bash
# agent-size.sh ARCH: tells what the packaged drover-agent consists of, by module and by package of the standard library.
# The agent is on every host, so whoever adds to it looks here.
set -euo pipefail
[ $# = 1 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }

cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CGO_ENABLED=0 GOWORK=off
# As tools/package.sh builds it, once with the symbols.
for flags in '-s -w -funcalign=16' '-w -funcalign=16'; do
	GOOS=linux GOARCH=$1 go build -trimpath -tags nethttpomithttp2 -ldflags "$flags" -o "$work/agent${flags%% *}" ./cmd/drover-agent
done
size=$(stat -c %s "$work/agent-s")
echo "drover-agent $1: $size bytes"
go tool nm -size "$work/agent-w" | awk -v size="$size" '
	$3 !~ /^[tTrR]$/ { next } # of variables nm does not say which have a place in the file
	{
		name = $4
		sub(/^type:[*.]*/, "", name); sub(/^go:[a-z.]*[*]?/, "", name)
		if (match(name, /^(github\.com|golang\.org|go\.[a-z]+|google\.golang\.org)\/[^\/]+\/[^\/.(]+/)) part = substr(name, RSTART, RLENGTH)
		else if (match(name, /^drover\//)) part = "drover"
		else if (match(name, /^[a-z0-9_\/]+[.]/)) part = "std " substr(name, RSTART, RLENGTH - 1)
		else part = "tables of the runtime and the types"
		sub(/\/internal\/.*/, "", part); gsub(/%2e/, ".", part)
		sum[part] += $2; told += $2
	}
	END {
		for (part in sum)
			if (sum[part] >= 100000) printf "%9d %4.1f%%  %s\n", sum[part], 100 * sum[part] / size, part | "sort -rn"
			else rest += sum[part]
		close("sort -rn")
		printf "%9d %4.1f%%  %s\n", rest, 100 * rest / size, "others, each below 100,000 bytes"
		printf "%9d %4.1f%%  %s\n", size - told, 100 * (size - told) / size, "without a symbol: line tables, types, variables"
	}'
