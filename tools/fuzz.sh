#!/bin/sh
# Runs every fuzz target of the module, one after another, with the given number of inputs. It takes a number and not a
# time, because until Go 1.27 a target can fail with "context deadline exceeded" when its time ends (golang/go#75804).
set -eu
inputs=${1:-50000}
grep -rl --include='*_test.go' '^func Fuzz' . | sort | while read -r file; do
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
		echo "$(dirname "$file") $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "${inputs}x" "$(dirname "$file")"
	done
done
