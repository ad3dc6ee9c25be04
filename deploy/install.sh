#!/bin/sh
# Installs one role of drover from an archive, on a Linux with systemd; on Debian the packages do the same. Run it again to upgrade.
set -eu

usage() {
	cat <<EOF
usage: install.sh [--from DIR|URL] [--sums SHA256] [--signers FILE] [--downgrade] [--prefix DIR] server|proxy|agent
       install.sh --uninstall [--purge] [--prefix DIR] server|proxy|agent

  --from DIR|URL   where SHA256SUMS and drover-VERSION-linux-ARCH.tar.gz are (default: the directory of this script).
                   A URL has to be https, unless --sums or --signers says what to expect.
  --sums SHA256    checksum of SHA256SUMS itself, from whoever made it
  --signers FILE   accept only a SHA256SUMS that one of these keys has signed: lines of "drover ssh-ed25519 KEY"
  --downgrade      install a version that is older than the installed one; otherwise that is an error
  --prefix DIR     where bin/ is (default: /usr/local)
  --uninstall      take the role off again; settings, keys and state stay. What an agent has started runs on
  --purge          and remove its state too: keys, database
EOF
}
fail() {
	echo "install.sh: $*" >&2
	exit 1
}
wrong() {
	echo "install.sh: $*" >&2
	usage >&2
	exit 2
}

from="" sums="" signers="" prefix=/usr/local downgrade="" uninstall="" purge="" role=""
while [ $# -gt 0 ]; do
	case $1 in
	--from | --sums | --signers | --prefix)
		[ $# -ge 2 ] || wrong "$1: a value is missing"
		case $1 in
		--from) from=$2 ;;
		--sums) sums=$2 ;;
		--signers) signers=$2 ;;
		--prefix) prefix=$2 ;;
		esac
		shift
		;;
	--downgrade) downgrade=yes ;;
	--uninstall) uninstall=yes ;;
	--purge) purge=yes ;;
	-h | --help)
		usage
		exit 0
		;;
	server | proxy | agent)
		[ -z "$role" ] || wrong "one role at a time"
		role=$1
		;;
	*) wrong "unknown: $1" ;;
	esac
	shift
done
[ -n "$role" ] || wrong "which role?"
[ -z "$purge" ] || [ -n "$uninstall" ] || wrong "--purge goes with --uninstall"
[ "$(id -u)" -eq 0 ] || fail "only root can install a service"
case $prefix in
/*[!A-Za-z0-9/._-]* | [!/]*) wrong "--prefix $prefix: expected an absolute path of plain characters" ;;
esac

case $role in
server) program=drover package=drover config=server.yaml data=/var/lib/drover ;;
proxy) program=drover package=drover config=proxy.yaml data=/var/lib/drover-proxy ;;
agent) program=drover-agent package=drover-agent config=agent.conf data=/var/lib/drover-agent ;;
esac
unit=drover-$role.service
units=/etc/systemd/system
if command -v dpkg-query >/dev/null && dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed'; then
	fail "the package $package is installed: use apt or dpkg"
fi
# A role can be put into the image of a machine that does not run.
control() {
	[ ! -d /run/systemd/system ] || systemctl "$@"
}

if [ -n "$uninstall" ]; then
	if [ -e "$units/$unit" ]; then
		control disable --now "$unit"
		rm -f "$units/$unit"
		control daemon-reload
	fi
	# The other role has the same program.
	if [ "$role" = agent ] || { [ ! -e "$units/drover-server.service" ] && [ ! -e "$units/drover-proxy.service" ]; }; then
		rm -f "$prefix/bin/$program" "/etc/sysusers.d/$package.conf" "/etc/tmpfiles.d/$package.conf"
	fi
	if [ -n "$purge" ]; then
		rm -rf "$data" "/etc/drover/$config"
		rmdir /etc/drover 2>/dev/null || true # another role may still use it
		echo "the $role and its state are removed"
	else
		echo "the $role is removed; $data and /etc/drover are left"
	fi
	exit 0
fi

case $(uname -m) in
x86_64) arch=amd64 ;;
aarch64) arch=arm64 ;;
*) fail "there is no archive for $(uname -m)" ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# What https has promised must hold to the end: no redirection leads to plain HTTP, unless the content is verified anyway.
protocols="=https"
[ -z "$sums$signers" ] || protocols="=https,http"
fetch() { # fetch NAME: a file of --from into the work directory
	case $from in
	http://* | https://*)
		if command -v curl >/dev/null; then
			curl --fail --silent --show-error --location --proto "$protocols" --output "$work/$1" "${from%/}/$1"
		elif command -v wget >/dev/null; then
			# wget cannot refuse plain HTTP, so it follows nothing.
			wget --quiet --max-redirect 0 --output-document "$work/$1" "${from%/}/$1"
		else
			fail "curl or wget is needed to get ${from%/}/$1"
		fi || fail "cannot get ${from%/}/$1"
		;;
	*) cp "$from/$1" "$work/$1" || fail "cannot read $from/$1" ;;
	esac
}
case $from in
"") from=$(cd "$(dirname "$0")" && pwd) ;;
http://*) [ -n "$sums$signers" ] || fail "$from: anybody on the way can change it: use https, or say with --sums or --signers what to expect" ;;
esac
fetch SHA256SUMS
if [ -n "$sums" ] && ! echo "$sums  $work/SHA256SUMS" | sha256sum --check --status; then
	fail "SHA256SUMS of $from is not the one that --sums names"
fi
if [ -n "$signers" ]; then
	command -v ssh-keygen >/dev/null || fail "ssh-keygen is needed to verify a signature"
	[ -r "$signers" ] || fail "cannot read $signers"
	fetch SHA256SUMS.sig
	ssh-keygen -q -Y verify -f "$signers" -I drover -n drover-release -s "$work/SHA256SUMS.sig" <"$work/SHA256SUMS" >"$work/verify" 2>&1 ||
		fail "SHA256SUMS of $from is not signed by a key of $signers: $(cat "$work/verify")"
fi
archive=$(sed -n "s/^[0-9a-f]\{64\} [ *]\(drover-[0-9A-Za-z.+~-]*-linux-$arch\.tar\.gz\)\$/\1/p" "$work/SHA256SUMS")
case $archive in
"") fail "SHA256SUMS of $from has no archive for $arch" ;;
*"
"*) fail "SHA256SUMS of $from has several archives for $arch" ;;
esac
version=${archive#drover-}
version=${version%-linux-*}
installed=$(sed -n 's/^X-Drover-Version=//p' "$units/$unit" 2>/dev/null || true)
if [ -n "$installed" ] && [ "$installed" != "$version" ] && [ -z "$downgrade" ]; then
	# sort takes "~" for what comes before a release, as in 1.2.0~rc1.
	newest=$(printf '%s\n' "$installed" "$version" | tr - '~' | sort -V | tail -n 1)
	[ "$newest" = "$(echo "$version" | tr - '~')" ] ||
		fail "version $version of $from is older than $installed, which is installed: use --downgrade if that is what you want"
fi
fetch "$archive"
(cd "$work" && grep " [ *]$archive\$" SHA256SUMS | sha256sum --check --status) || fail "$archive of $from is damaged: its checksum is not that of SHA256SUMS"
tar -C "$work" --no-same-owner -xzf "$work/$archive"
tree=$work/${archive%.tar.gz}

# Renamed into place: a program that runs cannot be written over, and one that is cut short is never run.
install -D -m 755 "$tree/bin/$program" "$prefix/bin/.$program.new"
mv -f "$prefix/bin/.$program.new" "$prefix/bin/$program"
if [ "$role" != agent ]; then
	install -D -m 644 "$tree/sysusers.d/$package.conf" "/etc/sysusers.d/$package.conf"
	systemd-sysusers "$package.conf"
fi
install -D -m 644 "$tree/tmpfiles.d/$package.conf" "/etc/tmpfiles.d/$package.conf"
systemd-tmpfiles --create "$package.conf"
mkdir -p /etc/drover
if [ ! -e "/etc/drover/$config" ]; then
	if [ "$role" = agent ]; then
		install -m 644 "$tree/etc/$config" "/etc/drover/$config"
	else
		# It may come to hold the password of a database.
		install -m 640 -g drover "$tree/etc/$config" "/etc/drover/$config"
	fi
fi
sed "s|/usr/bin/drover|$prefix/bin/drover|; s|^Documentation=.*||; s|^\[Unit\]\$|&\nX-Drover-Version=$version|" "$tree/systemd/$unit" >"$work/$unit"
install -D -m 644 "$work/$unit" "$units/$unit"
control daemon-reload
control try-restart "$unit"
echo "installed $prefix/bin/$program, $units/$unit and /etc/drover/$config"
case $role in
agent) echo "next: drover-agent join --server URL --token - --data-dir $data, then systemctl enable --now $unit" ;;
*) echo "next: write /etc/drover/$config, then systemctl enable --now $unit" ;;
esac
