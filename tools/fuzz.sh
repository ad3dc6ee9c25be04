#!/bin/sh
# Runs every fuzz target of the module, one after another, with the given number of inputs. It takes a number and not a
# time, because until Go 1.27 a target can fail with "context deadline exceeded" when its time ends (golang/go#75804).
#
# A package is built once for all its targets, and the inputs that are found stay in the build cache, where go test keeps them.
set -eu
inputs=${1:-50000}
top=$PWD
kept=$(go env GOCACHE)/fuzz
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for directory in $(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n 1 dirname | sort -u); do
	cd "$top/$directory"
	package=$(go list)
	go test -c -fuzz . -o "$work/fuzz.test" .
	for target in $(cat ./*_test.go | sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p'); do
		echo "$package $target"
		"$work/fuzz.test" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "${inputs}x" -test.fuzzcachedir "$kept/$package" \
			>"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
	done
done
