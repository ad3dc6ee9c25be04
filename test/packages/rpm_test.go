package packages_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// rpm installs on a machine whose database knows no other package, so nothing is there that a package depends on. Debian
// wants to be told that this is meant.
const rpm = "rpm --force-debian --nodeps "

// TestRPMs is the life of both packages where rpm installs them, on a machine that boots: they hold the files of the
// packages for Debian, an upgrade goes on with what runs, a removal keeps keys and settings, and a process lives through
// all of it.
func TestRPMs(t *testing.T) {
	t.Parallel()
	l := newLab(t, "drover")
	m := l.machines["drover"]
	old := build(t, "1.0.0")
	m.give(old+"/*.rpm", build(t, "1.1.0")+"/*.rpm")
	sameFiles(t, old)
	intoAnImage(m)
	m.run(rpm + "-i drover-1.0.0-*.rpm drover-agent-1.0.0-*.rpm")
	for _, unit := range []string{"drover-server", "drover-proxy", "drover-agent", "drover-shutdown"} {
		if r := m.try("systemctl is-active " + unit); r.out != "inactive\n" {
			t.Errorf("%s is %q after the installation", unit, r.out)
		}
	}
	owners := func(after string) {
		t.Helper()
		for path, want := range map[string]string{
			"/etc/drover/server.yaml": "640 root drover", "/var/lib/drover": "700 drover drover",
			"/var/lib/drover-agent": "700 root root", "/usr/bin/drover": "755 root root",
		} {
			if got := strings.TrimSpace(m.run("stat -c '%a %U %G' " + path)); got != want {
				t.Errorf("%s is %s after %s, want %s", path, got, after, want)
			}
		}
	}
	owners("the installation")
	if r := m.try(rpm + "-V drover drover-agent"); r.err != nil {
		t.Errorf("rpm finds other files than it has installed: %s", r.out)
	}

	m.run(`echo 'advertise: [127.0.0.1:7351]' >>/etc/drover/server.yaml; systemctl enable --now drover-server`)
	l.settle()
	_, lives := l.sleeper(m, "enable --now")
	mainPIDs := func() string { return m.run("systemctl show -P MainPID drover-server drover-agent") }
	before := strings.Fields(mainPIDs())

	m.run(rpm + "-U drover-1.1.0-*.rpm drover-agent-1.1.0-*.rpm")
	l.settle()
	lives("the upgrade")
	owners("the upgrade")
	for again := range strings.FieldsSeq(mainPIDs()) {
		if again == "0" || slices.Contains(before, again) {
			t.Errorf("after the upgrade pid %s runs, before it %q", again, before)
		}
	}
	m.run(
		"systemctl is-enabled drover-server drover-agent; grep -q ^advertise: /etc/drover/server.yaml; ! test -e /etc/drover/server.yaml.rpmnew")
	if version := m.run("rpm -q --qf '%{VERSION} ' drover drover-agent"); version != "1.1.0 1.1.0 " {
		t.Errorf("the packages are of the versions %q", version)
	}

	m.run(rpm + "-e drover-agent drover")
	lives("the removal")
	m.run(
		"test -e /var/lib/drover/server/pki/ca.key; test -e /var/lib/drover-agent/agent/enrolment.json; test -e /etc/drover/server.yaml.rpmsave")
	if left := m.run(
		"ls -d /usr/bin/drover* /usr/share/doc/drover* /usr/share/man/man1/drover* /usr/lib/systemd/system/drover* /etc/systemd/system/*/drover* 2>/dev/null || true"); left != "" {
		t.Errorf("the removal leaves\n%s", left)
	}
}

// intoAnImage: rpm installs into the root directory of a machine that does not run, and removes from there. The account is
// made in there, and no service of the machine that does it is asked. As all who make images do, it mounts /proc.
func intoAnImage(m *machine) {
	m.t.Helper()
	m.run(`mkdir -p /srv/parts /srv/root
mount -t tmpfs tmpfs /srv/parts
mkdir /srv/parts/low /srv/parts/up /srv/parts/work
mount --bind / /srv/parts/low
mount -t overlay overlay -o lowerdir=/srv/parts/low,upperdir=/srv/parts/up,workdir=/srv/parts/work /srv/root
mount -t proc proc /srv/root/proc`)
	if out := m.run(rpm + "--root /srv/root -i drover-1.0.0-*.rpm drover-agent-1.0.0-*.rpm"); strings.Contains(out, "failed") {
		m.t.Errorf("into an image: %s", out) // of a script that fails rpm only warns
	}
	if got := m.run("chroot /srv/root stat -c '%a %U %G' /etc/drover/server.yaml /var/lib/drover"); got != "640 root drover\n700 drover drover\n" {
		m.t.Errorf("in the image there is %q", got)
	}
	m.run("! getent passwd drover; ! test -e /usr/bin/drover; ! systemctl cat drover-server 2>/dev/null")
	m.run(rpm + "--root /srv/root -e drover drover-agent; ! test -e /srv/root/usr/bin/drover; test -d /srv/root/var/lib/drover")
	for _, name := range []string{"drover", "drover-agent"} {
		scripts := m.run("rpm -qp --scripts " + name + "-1.0.0-*.rpm")
		for _, which := range []string{"postinstall", "preuninstall", "postuninstall"} {
			if !strings.Contains(scripts, which+" scriptlet (using /bin/sh):\n#!/bin/sh\n") {
				m.t.Errorf("%s has no script %s:\n%s", name, which, scripts)
			}
		}
	}
	m.run("umount /srv/root/proc; umount -l /srv/root; umount -l /srv/parts")
}

// sameFiles: both formats install the same files.
func sameFiles(t *testing.T, dist string) {
	t.Helper()
	for _, name := range []string{"drover", "drover-agent"} {
		of := func(command string) []string {
			out, err := exec.Command("sh", "-ec", "cd "+dist+"; "+command).Output()
			must(t, err)
			files := strings.Fields(string(out))
			slices.Sort(files)
			return files
		}
		deb := of("dpkg-deb -c " + name + `_*.deb | grep -v ^d | sed 's/.* \.//'`)
		got := of("rpm -qp --qf '[%{FILEMODES:perms} %{FILENAMES}\\n]' " + name + "-1*.rpm | grep -v ^d | cut -d ' ' -f 2")
		if !slices.Equal(deb, got) || len(deb) < 20 {
			t.Errorf("%s has in the deb\n%q\nin the rpm\n%q", name, deb, got)
		}
	}
}

// TestSignedRPMs: rpm accepts the signature of a key that it has imported, and not of one that it has not.
func TestSignedRPMs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sh := func(script string) (string, error) {
		cmd := exec.Command("sh", "-ec", script)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GNUPGHOME="+dir, "LC_ALL=C")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := sh(`gpg --batch --quiet --passphrase '' --quick-gen-key 'A Maker <maker@example.com>' rsa3072 sign never
gpg --batch --armor --export >public.asc
gpg --batch --armor --export-secret-keys >secret.asc
gpgconf --kill gpg-agent`); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	dist := build(t, "1.0.0", "RPM_KEY="+filepath.Join(dir, "secret.asc"))
	check := "rpm --dbpath $PWD/db -Kv " + dist + "/drover-1.0.0-*.rpm " + dist + "/drover-agent-1.0.0-*.rpm"
	if out, err := sh(check); err == nil || !strings.Contains(out, "NOKEY") {
		t.Errorf("without the key: %v: %s", err, out)
	}
	if out, err := sh("rpm --dbpath $PWD/db --import public.asc; " + check); err != nil ||
		strings.Count(out, "Signature, key ID") < 2 || strings.Contains(out, "NOKEY") {
		t.Errorf("with the key: %v: %s", err, out)
	}
	if out, err := exec.Command("rpm", "-K", filepath.Join(build(t, "1.0.0"), "drover-1.0.0-1."+machineName(t)+".rpm")).CombinedOutput(); err != nil ||
		strings.Contains(string(out), "signatures") {
		t.Errorf("without RPM_KEY: %v: %s", err, out)
	}
	// The signature covers the file: another byte is found.
	if out, err := sh("cp " + dist + "/drover-agent-1.0.0-*.rpm bad.rpm; printf x | dd of=bad.rpm bs=1 seek=100000 conv=notrunc 2>/dev/null; rpm --dbpath $PWD/db -K bad.rpm"); err == nil {
		t.Errorf("a changed package is good: %s", out)
	}
}

// machineName is the architecture of this machine as rpm calls it.
func machineName(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("uname", "-m").Output()
	must(t, err)
	return strings.TrimSpace(string(out))
}

// TestAccountOfTheRPM: the script that makes the account before there is a file of it makes the same one.
func TestAccountOfTheRPM(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(harness.Root(), "deploy", "rpm", "drover", "pre"))
	must(t, err)
	file, err := os.ReadFile(filepath.Join(harness.Root(), "deploy", "sysusers.d", "drover.conf"))
	must(t, err)
	_, account, _ := strings.Cut(string(file), "\nu ")
	if account == "" || !strings.Contains(string(script), "\nu "+account+"END\n") {
		t.Errorf("deploy/sysusers.d/drover.conf says %q, and the script says\n%s", account, script)
	}
}
