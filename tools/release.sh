#!/bin/sh
# Makes a release of the commit that is checked out: the notes in changes/unreleased become a section of CHANGELOG.md, the commit and its
# tag follow, then packages and checksums in dist/. It pushes nothing. `git reset --hard HEAD~1; git tag -d vVERSION` takes it back.
set -eu

usage() {
	echo "usage: release.sh [--no-packages] VERSION   (such as 1.2.3)" >&2
	exit 2
}
fail() {
	echo "release.sh: $*" >&2
	exit 1
}
packages=yes
if [ "${1:-}" = --no-packages ]; then
	packages=""
	shift
fi
[ $# -eq 1 ] || usage
version=$1
printf '%s\n' "$version" | grep -qxE '[0-9]+\.[0-9]+\.[0-9]+' || fail "version \"$version\": expected three numbers, such as 1.2.3"
cd "$(dirname "$0")/.."
[ -z "$(git status --porcelain)" ] || fail "there are changes that are not committed: commit or remove them first"
! git rev-parse --quiet --verify "refs/tags/v$version" >/dev/null || fail "the tag v$version exists"
set -- changes/unreleased/*.md
[ -e "$1" ] || fail "changes/unreleased has no notes: there is nothing to release"
for note in "$@"; do
	head -n 1 "$note" | grep -qE '^(Added|Changed|Fixed|Removed|Security): .' ||
		fail "$note: expected the first line to begin with Added:, Changed:, Fixed:, Removed: or Security:"
done

section=$(mktemp)
trap 'rm -f "$section"' EXIT
{
	printf '## %s (%s)\n' "$version" "$(date -u +%Y-%m-%d)"
	for kind in Security Added Changed Fixed Removed; do
		printed=""
		for note in "$@"; do
			head -n 1 "$note" | grep -q "^$kind: " || continue
			[ -n "$printed" ] || printf '\n### %s\n\n' "$kind"
			printed=yes
			# The first line is the beginning of a list item, the others belong to it. Links start at the top of the repository.
			sed "1s/^$kind: /- /; 2,\$s/^./  &/; s,](../../,](,g" "$note"
		done
	done
} >"$section"
{
	echo "# Changelog"
	echo
	cat "$section"
	[ ! -e CHANGELOG.md ] || sed 1d CHANGELOG.md
} >CHANGELOG.new
mv CHANGELOG.new CHANGELOG.md
git add CHANGELOG.md
git rm -q "$@"
git commit -q -m "release: $version"
git tag -a -m "drover $version" "v$version"
if [ -n "$packages" ]; then
	rm -rf dist
	tools/package.sh "$version" amd64 dist
	tools/package.sh "$version" arm64 dist
	(cd dist && sha256sum --check --quiet SHA256SUMS)
	echo "dist/ holds the packages of $version and their checksums."
fi
echo "Next: git push --follow-tags"
