#!/bin/sh
# Makes a release of the commit that is checked out. The section "Unreleased" of CHANGELOG.md, if there is one, and the notes in
# changes/unreleased become the section of the version. The commit and its tag follow, then all files of the release with their checksums,
# signed, in dist/. It pushes nothing. `git reset --hard HEAD~1; git tag -d vVERSION` takes it back.
set -eu

usage() {
	echo "usage: release.sh --key FILE VERSION      (such as 1.2.3; FILE is a key of OpenSSH, which signs the checksums)" >&2
	echo "       release.sh --no-packages VERSION   (only the changelog, the commit and the tag)" >&2
	exit 2
}
fail() {
	echo "release.sh: $*" >&2
	exit 1
}
packages=yes key=""
case ${1:-} in
--no-packages)
	packages=""
	shift
	;;
--key)
	[ $# -ge 2 ] || usage
	key=$2
	shift 2
	;;
esac
[ $# -eq 1 ] || usage
version=$1
printf '%s\n' "$version" | grep -qxE '[0-9]+\.[0-9]+\.[0-9]+' || fail "version \"$version\": expected three numbers, such as 1.2.3"
case $key in "" | /*) ;; *) key=$PWD/$key ;; esac
cd "$(dirname "$0")/.."
if [ -n "$packages" ]; then
	[ -n "$key" ] || fail "expected --key FILE, to sign the checksums with (make release KEY=FILE)"
	tools/sign.sh --try "$key"
fi
[ -z "$(git status --porcelain)" ] || fail "there are changes that are not committed: commit or remove them first"
! git rev-parse --quiet --verify "refs/tags/v$version" >/dev/null || fail "the tag v$version exists"
set -- changes/unreleased/*.md
[ -e "$1" ] || set --
[ $# -gt 0 ] || grep -qs '^## Unreleased' CHANGELOG.md || fail "changes/unreleased has no notes: there is nothing to release"
for note in "$@"; do
	line=""
	IFS= read -r line <"$note" || : # a note may have one line without an end
	case $line in
	"Added: "?* | "Changed: "?* | "Fixed: "?* | "Removed: "?* | "Security: "?*) ;;
	*) fail "$note: expected the first line to begin with Added:, Changed:, Fixed:, Removed: or Security:" ;;
	esac
done

[ -z "$packages" ] || go run ./internal/zhdocs --all || fail "the Chinese pages must be up to date"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
touch "$work/written" "$work/older" # the text of the section "Unreleased", and all other sections
[ ! -e CHANGELOG.md ] || awk -v work="$work" '
	NR == 1 { next }
	/^## / { written = /^## Unreleased/; if (written) next }
	{ print >(work (written ? "/written" : "/older")) }' CHANGELOG.md
{
	printf '## %s (%s)\n' "$version" "$(date -u +%Y-%m-%d)"
	[ ! -s "$work/written" ] || printf '%s\n' "$(cat "$work/written")" # without the empty lines at its end
	[ $# -eq 0 ] || for kind in Security Added Changed Fixed Removed; do
		# The first line is the beginning of a list item, the others belong to it. Links start at the top of the repository.
		awk -v kind="$kind" '
			FNR == 1 { ours = sub("^" kind ": ", "- ") }
			ours && !printed++ { printf "\n### %s\n\n", kind }
			ours { gsub(/\]\(\.\.\/\.\.\//, "]("); print (FNR > 1 && $0 != "" ? "  " : "") $0 }' "$@"
	done
} >"$work/section"
{
	echo "# Changelog"
	echo
	cat "$work/section"
	if grep -q . "$work/older"; then
		echo
		sed '/./,$!d' "$work/older"
	fi
} >CHANGELOG.new
mv CHANGELOG.new CHANGELOG.md
git add CHANGELOG.md
[ $# -eq 0 ] || git rm -q "$@"
git commit -q -m "release: $version"
git tag -a -m "drover $version" "v$version"
if [ -n "$packages" ]; then
	rm -rf dist
	tools/package.sh "$version" amd64 dist
	tools/package.sh "$version" arm64 dist
	tools/sign.sh "$key" dist
	echo "dist/ holds the files of $version, their checksums and the signature."
fi
echo "Next: git push --follow-tags"
