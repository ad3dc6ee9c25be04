#!/bin/sh
# Runs the tests of the given packages under the race detector, which needs gcc.
#
# Go 1.26 has a defect (golang.org/issue/78156): about one run in ten of a package whose tests use testing/synctest ends with
# "ThreadSanitizer: CHECK failed". That is the detector's own end, not a test's, so such a package runs once more. A race or a
# failed test never does.
#
# SQLite is a translation from C: no memory of it is ours, and watching its accesses takes most of the time of a test with
# a database. The driver, through which we call it, is watched.
#
# By default the detector has every program wait for a second at its end, the programs that tests start too. Goroutines
# that outlive what they belong to are found by the tests, which wait for them.
#
# The linter and the ordinary tests vet the code. Many tests only wait, so three packages are tested at a time.
set -u
unwatched=-gcflags=modernc.org/sqlite/lib=-race=false
export GORACE="atexit_sleep_ms=0 ${GORACE:-}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
run() {
	CGO_ENABLED=1 go test -race "$unwatched" -vet=off -p 3 -count 1 -timeout 20m "$@" >"$log" 2>&1
	status=$?
	grep -E '^(\s*--- FAIL|FAIL|ok |panic:)|^\s+\S+\.go:[0-9]+:|ThreadSanitizer' "$log"
	return "$status"
}
run "$@" && exit 0
crashed=$(awk '/^ThreadSanitizer: CHECK failed/ { crash = 1 } /^(ok|FAIL)\t/ { if (crash) print $2; crash = 0 }' "$log")
failed=$(awk '/^FAIL\t/ { print $2 }' "$log")
if [ -z "$crashed" ] || [ "$crashed" != "$failed" ] || grep -qE 'WARNING: DATA RACE|^--- FAIL' "$log"; then
	grep -A 40 'WARNING: DATA RACE' "$log" | head -n 400
	exit 1
fi
echo "the race detector failed, not a test: once more" $crashed
# shellcheck disable=SC2086 # a list of packages
run $crashed
