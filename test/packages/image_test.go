package packages_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drover/internal/test/harness"
)

// containerImage is an image as a runtime reads it.
type containerImage struct {
	config struct {
		Architecture, OS string
		Config           struct {
			User         string
			Env          []string
			Entrypoint   []string
			Cmd          []string
			WorkingDir   string
			Volumes      map[string]struct{}
			ExposedPorts map[string]struct{}
			Labels       map[string]string
			StopSignal   string
			Healthcheck  struct {
				Test              []string
				Interval, Timeout time.Duration
				Retries           int
			}
		}
		RootFS struct {
			Type    string
			DiffIDs []string `json:"diff_ids"`
		}
	}
	// layer is the one layer, compressed.
	layer []byte
}

// reference is a descriptor of the OCI image specification.
type reference struct {
	MediaType, Digest string
	Size              int
	Platform          struct{ Architecture, OS string }
	Annotations       map[string]string
}

// readImage reads the image of a release, and fails the test if anything in it does not match what refers to it.
func readImage(t *testing.T, dist string) containerImage {
	t.Helper()
	archive, err := os.Open(filepath.Join(dist, "drover-1.0.0-image-"+architecture()+".tar"))
	must(t, err)
	defer archive.Close()
	files := map[string][]byte{}
	for r := tar.NewReader(archive); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		files[header.Name], err = io.ReadAll(r)
		must(t, err)
	}
	read := func(name string, into any) {
		t.Helper()
		if err := json.Unmarshal(files[name], into); err != nil {
			t.Fatalf("%s of the image: %v", name, err)
		}
	}
	blob := func(r reference, kind string) string {
		t.Helper()
		name := "blobs/sha256/" + strings.TrimPrefix(r.Digest, "sha256:")
		if sum := digest(files[name]); sum != r.Digest || len(files[name]) != r.Size || r.MediaType != kind {
			t.Fatalf("the blob of %+v has %d bytes, the digest %s, and should be a %s", r, len(files[name]), sum, kind)
		}
		return name
	}
	var layout struct{ ImageLayoutVersion string }
	var index struct{ Manifests []reference }
	read("oci-layout", &layout)
	read("index.json", &index)
	if layout.ImageLayoutVersion != "1.0.0" || len(index.Manifests) != 1 {
		t.Fatalf("the layout is %+v of %+v", layout, index)
	}
	top := index.Manifests[0]
	if top.Platform.Architecture != architecture() || top.Platform.OS != "linux" ||
		top.Annotations["org.opencontainers.image.ref.name"] != "1.0.0" {
		t.Errorf("the image is %+v", top)
	}
	var manifest struct {
		Config reference
		Layers []reference
	}
	read(blob(top, "application/vnd.oci.image.manifest.v1+json"), &manifest)
	if len(manifest.Layers) != 1 {
		t.Fatalf("there are %d layers", len(manifest.Layers))
	}
	var image containerImage
	config := blob(manifest.Config, "application/vnd.oci.image.config.v1+json")
	read(config, &image.config)
	layer := blob(manifest.Layers[0], "application/vnd.oci.image.layer.v1.tar+gzip")
	image.layer = files[layer]
	plain := unzip(t, image.layer)
	if ids := image.config.RootFS.DiffIDs; len(ids) != 1 || ids[0] != digest(plain) || image.config.RootFS.Type != "layers" {
		t.Errorf("the layer is %s, the configuration says %q", digest(plain), ids)
	}
	// What docker load reads names the same blobs.
	var saved []struct {
		Config           string
		RepoTags, Layers []string
	}
	read("manifest.json", &saved)
	if len(saved) != 1 || saved[0].Config != config || len(saved[0].Layers) != 1 || saved[0].Layers[0] != layer ||
		len(saved[0].RepoTags) != 1 || saved[0].RepoTags[0] != "drover:1.0.0" {
		t.Errorf("manifest.json says %+v", saved)
	}
	return image
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func unzip(t *testing.T, data []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(data))
	must(t, err)
	plain, err := io.ReadAll(r)
	must(t, err)
	return plain
}

// unpack makes the layer a directory, as a runtime does for root.
func (c *containerImage) unpack(t *testing.T, dir string) {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o755))
	for r := tar.NewReader(bytes.NewReader(unzip(t, c.layer))); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		must(t, err)
		path := filepath.Join(dir, header.Name)
		if header.Typeflag == tar.TypeDir {
			must(t, os.MkdirAll(path, 0o755))
		} else {
			data, err := io.ReadAll(r)
			must(t, err)
			must(t, harness.WriteProgram(path, data))
		}
		must(t, os.Chown(path, header.Uid, header.Gid))
		must(t, os.Chmod(path, header.FileInfo().Mode()))
	}
}

// TestImage runs the image as a runtime does: its files as the root directory, its account, its environment, its command
// line, and nothing else. The server becomes ready, the health check sees that, and what must stay is in the volume.
func TestImage(t *testing.T) {
	t.Parallel()
	image := readImage(t, build(t, "1.0.0"))
	c := image.config.Config
	if c.User != "65532:65532" || c.Labels["org.opencontainers.image.version"] != "1.0.0" || c.StopSignal != "SIGTERM" ||
		len(c.ExposedPorts) != 2 || image.config.OS != "linux" || image.config.Architecture != architecture() {
		t.Errorf("the image says %+v", c)
	}
	if _, is := c.Volumes["/var/lib/drover"]; !is || len(c.Volumes) != 1 {
		t.Errorf("the volumes are %v", c.Volumes)
	}
	l := newLab(t, "drover")
	m := l.machines["drover"]
	image.run(m, c.Cmd, "DROVER_ADVERTISE=127.0.0.1:7351")
	image.healthy(m)
	if owner := m.run("stat -c '%u %a' /srv/image/var/lib/drover/server/pki/ca.key; ps -o uid= -C drover"); !strings.HasPrefix(
		owner, "65532 600\n") || strings.Contains(owner, " 0\n") {
		t.Errorf("the key and the process are of %q", owner)
	}
	if out := m.run("curl --silent --fail --cacert /srv/image/var/lib/drover/server/pki/ca.pem https://localhost:7350/readyz"); !strings.Contains(out, "ready") {
		t.Errorf("the API says %q", out)
	}
	if out := m.run(image.inside([]string{"drover", "agents"})); !strings.Contains(out, "no hosts") {
		t.Errorf("the command line in the image says %q", out)
	}
	// A new container over the same volume is the same server.
	authority := m.run("cat /srv/image/var/lib/drover/server/pki/ca.pem")
	m.run("systemctl stop drover-image")
	if r := m.try(image.inside(c.Healthcheck.Test[1:])); r.err == nil || !strings.Contains(r.out, "does not answer") {
		t.Errorf("the health check of a server that is not there: %v, %q", r.err, r.out)
	}
	image.run(m, c.Cmd, "DROVER_ADVERTISE=127.0.0.1:7351")
	image.healthy(m)
	if again := m.run("cat /srv/image/var/lib/drover/server/pki/ca.pem"); again != authority {
		t.Error("the second server has another authority")
	}
	roots, err := os.ReadFile(filepath.Join(m.root, "srv/image/etc/ssl/certs/ca-certificates.crt"))
	must(t, err)
	if n := strings.Count(string(roots), "BEGIN CERTIFICATE"); !x509.NewCertPool().AppendCertsFromPEM(roots) || n < 80 {
		t.Errorf("the image has %d roots", n)
	}
}

// run starts the image on a machine, with a read-only root but for the volume and /tmp, and without capabilities. systemd
// does what a runtime does.
func (c *containerImage) run(m *machine, command []string, environment ...string) {
	m.t.Helper()
	root := filepath.Join(m.root, "srv/image")
	if _, err := os.Stat(root); err != nil {
		c.unpack(m.t, root)
		for _, dir := range []string{"proc", "sys", "dev", "run"} { // where a runtime mounts
			must(m.t, os.MkdirAll(filepath.Join(root, dir), 0o755))
		}
		// systemd, other than a runtime, takes only accounts that it knows.
		m.run("cp /etc/hosts /srv/image/etc/hosts; for f in passwd group; do grep ^drover: /srv/image/etc/$f >>/etc/$f; done")
	}
	user, group, _ := strings.Cut(c.config.Config.User, ":")
	line := []string{
		"systemd-run --quiet --unit=drover-image --collect -p RootDirectory=/srv/image -p MountAPIVFS=yes",
		"-p User=" + user, "-p Group=" + group, "-p CapabilityBoundingSet= -p NoNewPrivileges=yes",
		"-p ReadOnlyPaths=/ -p ReadWritePaths=/var/lib/drover -p TemporaryFileSystem=/tmp",
		"-p WorkingDirectory=" + c.config.Config.WorkingDir,
	}
	for _, pair := range append(c.config.Config.Env, environment...) {
		line = append(line, "--setenv='"+pair+"'")
	}
	line = append(append(line, c.config.Config.Entrypoint...), command...)
	m.run(strings.Join(line, " "))
}

// inside returns a command line that runs in the root of the image, as its account and with its environment.
func (c *containerImage) inside(command []string) string {
	return "env -i " + strings.Join(c.config.Config.Env, " ") + " /usr/sbin/chroot --userspec=" + c.config.Config.User +
		" /srv/image " + strings.Join(command, " ")
}

// healthy waits until the health check of the image says that the server is ready.
func (c *containerImage) healthy(m *machine) {
	m.t.Helper()
	check := c.config.Config.Healthcheck
	if len(check.Test) < 2 || check.Test[0] != "CMD" || check.Interval <= 0 || check.Timeout <= 0 || check.Retries < 1 {
		m.t.Fatalf("the health check is %+v", check)
	}
	var last outcome
	defer func() {
		if last.err != nil {
			m.t.Logf("the health check last said %s--- the journal ends with\n%s", last.out, m.journal())
		}
	}()
	harness.Eventually(m.t, "the image to be healthy", func() bool {
		last = m.try(c.inside(check.Test[1:]))
		return last.err == nil
	})
}
