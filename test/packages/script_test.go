package packages_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// TestInstallScript is the life of all roles on a machine without packages, from a directory and from a URL.
func TestInstallScript(t *testing.T) {
	t.Parallel()
	l := newLab(t, "drover")
	m := l.machines["drover"]
	out := build(t, "1.0.0")
	m.give(out+"/install.sh", out+"/SHA256SUMS", out+"/*.tar.gz", filepath.Join(harness.Root(), "tools", "sign.sh"))
	// The other files are not needed, and sign.sh would miss them.
	m.run(`for name in key other; do ssh-keygen -q -t ed25519 -N '' -f $name; echo "drover $(cat $name.pub)" >$name.signers; done
sed -i /linux.*gz/!d SHA256SUMS; ./sign.sh /root/key .`)

	refuses(m)
	m.run("./install.sh --signers key.signers server; test -x /usr/local/bin/drover; ./install.sh --uninstall --purge server; rm -rf /var/lib/drover")
	m.run("./install.sh server; ./install.sh proxy")
	// The third comes over the network, which nobody has to trust where the sums are known.
	m.run(`mkdir /srv/mirror; cp SHA256SUMS *.tar.gz /srv/mirror
echo 'user root; pid /run/mirror.pid; events {} http { server { listen 127.0.0.1:80; root /srv/mirror; } }' >mirror.conf
nginx -c /root/mirror.conf
./install.sh --from http://127.0.0.1/ --sums "$(sha256sum <SHA256SUMS | cut -c 1-64)" --prefix /opt/drover agent`)
	m.run(
		"test -x /usr/local/bin/drover; test -x /opt/drover/bin/drover-agent; systemctl cat drover-server | grep -q '^ExecStart=/usr/local/bin/drover '")
	m.run("echo 'advertise: [127.0.0.1:7351]' >>/etc/drover/server.yaml; systemctl start drover-server")
	l.settle()
	m.run(
		"drover token create --area 0 --uses 1 --ttl 1h 2>/dev/null | /opt/drover/bin/drover-agent join --server https://127.0.0.1:7350 --token - --data-dir /var/lib/drover-agent; systemctl start drover-agent")
	l.settle()

	// An older release has a valid checksum and a valid signature, too.
	older := "rm -rf older; mkdir older; sed 's/1\\.0\\.0/0.9.0/g' SHA256SUMS >older/SHA256SUMS; ./install.sh --from older server"
	if r := m.try(older); r.err == nil || !strings.Contains(r.out, "version 0.9.0 of older is older than 1.0.0") {
		t.Errorf("an older release: %v, says %q", r.err, r.out)
	}
	if r := m.try(older + " --downgrade"); r.err == nil || !strings.Contains(r.out, "cannot read older/drover-0.9.0-linux-") {
		t.Errorf("an older release that is wanted: %v, says %q", r.err, r.out)
	}
	// Whoever can redirect to plain HTTP could send any sums.
	m.run(`openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -addext subjectAltName=DNS:localhost -days 1 -keyout tls.key -out tls.crt 2>/dev/null
nginx -c /root/mirror.conf -s stop
echo 'user root; pid /run/mirror.pid; events {} http { server { listen 127.0.0.1:80; root /srv/mirror; }
server { listen 127.0.0.1:443 ssl; ssl_certificate /root/tls.crt; ssl_certificate_key /root/tls.key; return 302 http://127.0.0.1$request_uri; } }' >mirror.conf
while [ -e /run/mirror.pid ]; do sleep 0.1; done; nginx -c /root/mirror.conf`)
	const redirected = "CURL_CA_BUNDLE=/root/tls.crt ./install.sh --from https://localhost/ --prefix /opt/redirected "
	if r := m.try(redirected + "agent"); r.err == nil || !strings.Contains(r.out, "cannot get https://localhost/SHA256SUMS") {
		t.Errorf("a redirection to plain HTTP: %v, says %q", r.err, r.out)
	}
	m.run(redirected + `--sums "$(sha256sum <SHA256SUMS | cut -c 1-64)" agent; rm -r /opt/redirected`)

	// An upgrade is the same command: what runs goes on with the new program, and the settings stay.
	before := m.run("systemctl show -P MainPID drover-server")
	m.run("./install.sh server; grep -q advertise: /etc/drover/server.yaml")
	l.settle()
	if after := m.run("systemctl show -P MainPID drover-server"); after == before {
		t.Errorf("the server is still pid %s", before)
	}
	m.run("./install.sh --uninstall server; test -x /usr/local/bin/drover") // the proxy's too
	m.run(
		"./install.sh --uninstall proxy; ! test -e /usr/local/bin/drover; test -e /var/lib/drover/server/pki/ca.key; test -e /etc/drover/server.yaml")
	m.run(
		"./install.sh --uninstall --purge server; ./install.sh --uninstall --purge proxy; ./install.sh --prefix /opt/drover --uninstall --purge agent")
	if left := m.run(
		"ls -d /etc/drover /var/lib/drover/* /var/lib/drover-agent /etc/systemd/system/drover* /usr/local/bin/drover /opt/drover/bin/* 2>/dev/null || true"); left != "" {
		t.Errorf("what is left:\n%s", left)
	}
}

// refuses: what cannot be verified is not installed, and leaves nothing.
func refuses(m *machine) {
	m.t.Helper()
	changed := func(script string) string {
		return "rm -rf other; mkdir other; cp SHA256SUMS *.tar.gz other; cd other; " + script + "; cd ..; "
	}
	for _, c := range []struct{ name, before, args, want string }{
		{"damaged", changed("for f in *.tar.gz; do echo x >>$f; done"), "--from other", "damaged"},
		{"without an archive", changed("rm *.tar.gz"), "--from other", "cannot read"},
		{"without sums", changed("rm SHA256SUMS"), "--from other", "cannot read"},
		{"archive not listed", changed("sed -i /linux/d SHA256SUMS"), "--from other", "has no archive"},
		{
			"two versions", changed(`sed 's/1\.0\.0/1.0.1/g' SHA256SUMS >more; cat more >>SHA256SUMS`), "--from other",
			"several archives",
		},
		{"other sums", "", "--from . --sums " + strings.Repeat("0", 64), "not the one that --sums names"},
		{"another signer", "", "--from . --signers other.signers", "is not signed by a key of other.signers"},
		{"without a signature", changed("true"), "--from other --signers key.signers", "cannot read other/SHA256SUMS.sig"},
		{
			"sums that were changed", changed("cp ../SHA256SUMS.sig .; echo >>SHA256SUMS"), "--from other --signers key.signers",
			"is not signed by",
		},
		{"no signers", "", "--signers none", "cannot read none"},
		{"plain HTTP", "", "--from http://127.0.0.1/", "anybody on the way"},
		{"unreachable", "", "--from https://127.0.0.1:9/", "cannot get"},
		{"a prefix that is no path", "", "--prefix 'a|b'", "absolute path"},
		{"no value", "", "--from", "a value is missing"},
		{"two roles", "", "server", "one role at a time"},
		{"a purge alone", "", "--purge", "goes with --uninstall"},
	} {
		if r := m.try(c.before + "./install.sh agent " + c.args); r.err == nil || !strings.Contains(r.out, c.want) {
			m.t.Errorf("%s: %v, says %q, want %q", c.name, r.err, r.out, c.want)
		}
	}
	if left := m.run(
		"ls -d /etc/drover /var/lib/drover* /usr/local/bin/drover* /etc/systemd/system/drover* /tmp/tmp.* 2>/dev/null || true"); left != "" {
		m.t.Errorf("something was installed, or left:\n%s", left)
	}
}

// TestScripts: shellcheck, where it is installed, finds nothing in what is run as root.
func TestScripts(t *testing.T) {
	scripts, err := filepath.Glob(filepath.Join(harness.Root(), "deploy", "debian", "*", "p*"))
	must(t, err)
	ofRPM, err := filepath.Glob(filepath.Join(harness.Root(), "deploy", "rpm", "*", "p*"))
	must(t, err)
	scripts = append(append(scripts, ofRPM...), filepath.Join(harness.Root(), "deploy", "install.sh"),
		filepath.Join(harness.Root(), "tools", "package.sh"), filepath.Join(harness.Root(), "tools", "release.sh"),
		filepath.Join(harness.Root(), "tools", "sign.sh"))
	if len(scripts) != 17 {
		t.Errorf("there are %d scripts, want 17", len(scripts))
	}
	for _, script := range scripts {
		if out, err := exec.Command("sh", "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s: %s", script, out)
		}
	}
	checker, err := exec.LookPath("shellcheck")
	if err != nil {
		return
	}
	if out, err := exec.Command(checker, scripts...).CombinedOutput(); err != nil {
		t.Errorf("%s", out)
	}
}
