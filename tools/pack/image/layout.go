package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"
)

// Media types of the OCI image specification.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// descriptor refers to a blob.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Platform    *platform         `json:"platform,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

// image is the configuration: what runs, and as whom.
type image struct {
	Created time.Time `json:"created"`
	platform
	Config runConfig `json:"config"`
	RootFS rootFS    `json:"rootfs"`
	// History has an entry for each layer.
	History []history `json:"history"`
}

type history struct {
	Created   time.Time `json:"created"`
	CreatedBy string    `json:"created_by"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type runConfig struct {
	User         string              `json:"User"`
	ExposedPorts map[string]struct{} `json:"ExposedPorts"`
	Env          []string            `json:"Env"`
	Entrypoint   []string            `json:"Entrypoint"`
	Cmd          []string            `json:"Cmd"`
	Volumes      map[string]struct{} `json:"Volumes"`
	WorkingDir   string              `json:"WorkingDir"`
	Labels       map[string]string   `json:"Labels"`
	StopSignal   string              `json:"StopSignal"`
	// Healthcheck is an addition of Docker, which podman reads as well.
	Healthcheck healthcheck `json:"Healthcheck"`
}

type healthcheck struct {
	Test        []string
	Interval    time.Duration // in nanoseconds, as all times here
	Timeout     time.Duration
	StartPeriod time.Duration
	Retries     int
}

// config returns what the image says of itself.
func (s *settings) config(diffID string) image {
	return image{
		Created:  s.at,
		platform: platform{s.arch, "linux"},
		Config: runConfig{
			User:         "65532:65532", // by number, so that a cluster can tell that it is not root
			ExposedPorts: map[string]struct{}{"7350/tcp": {}, "7351/tcp": {}},
			// The default data directory of an account is drover below XDG_STATE_HOME, for the server and its commands.
			Env:        []string{"PATH=/usr/bin", "HOME=" + dataDir, "XDG_STATE_HOME=/var/lib"},
			Entrypoint: []string{"/usr/bin/drover"},
			Cmd:        []string{"server"},
			Volumes:    map[string]struct{}{dataDir: {}},
			WorkingDir: dataDir,
			Labels: map[string]string{
				"org.opencontainers.image.title":       "drover",
				"org.opencontainers.image.description": "fleet process manager: server, proxy and command line",
				"org.opencontainers.image.version":     s.version,
				"org.opencontainers.image.created":     s.at.Format(time.RFC3339),
				"org.opencontainers.image.licenses":    "MIT",
			},
			StopSignal: "SIGTERM",
			Healthcheck: healthcheck{
				Test:     []string{"CMD", "/usr/bin/drover", "server", "ready"},
				Interval: 30 * time.Second, Timeout: 10 * time.Second, StartPeriod: time.Minute, Retries: 3,
			},
		},
		RootFS:  rootFS{"layers", []string{diffID}},
		History: []history{{s.at, "drover tools/pack/image"}},
	}
}

// archive returns the layout as a tar.
func (s *settings) archive(layer []byte) ([]byte, error) {
	packed, err := pack(layer, s.level)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	t := &tree{w: tar.NewWriter(&text), at: s.at, made: map[string]bool{}}
	blob := func(kind string, data []byte) descriptor {
		sum := sha256.Sum256(data)
		name := hex.EncodeToString(sum[:])
		t.file("/blobs/sha256/"+name, 0o644, data)
		return descriptor{MediaType: kind, Digest: "sha256:" + name, Size: len(data)}
	}
	var faults []error
	encode := func(value any) []byte {
		data, err := json.Marshal(value)
		faults = append(faults, err)
		return data
	}
	diff := sha256.Sum256(layer)
	layers := []descriptor{blob(typeLayer, packed)}
	config := blob(typeConfig, encode(s.config("sha256:"+hex.EncodeToString(diff[:]))))
	main := blob(typeManifest, encode(manifest{2, typeManifest, config, layers}))
	main.Platform = &platform{s.arch, "linux"}
	name := "drover:" + tag(s.version)
	main.Annotations = map[string]string{
		"org.opencontainers.image.ref.name": tag(s.version), "io.containerd.image.name": "docker.io/library/" + name,
	}
	t.file("/oci-layout", 0o644, encode(map[string]string{"imageLayoutVersion": "1.0.0"}))
	t.file("/index.json", 0o644, encode(index{2, typeIndex, []descriptor{main}}))
	// 'docker load' of versions that do not read the layout.
	t.file("/manifest.json", 0o644, encode([]map[string]any{{
		"Config": path(config), "RepoTags": []string{name}, "Layers": []string{path(layers[0])},
	}}))
	if err := errors.Join(append(faults, t.err, t.w.Close())...); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}

// path returns where the archive holds a blob.
func path(d descriptor) string { return "blobs/sha256/" + d.Digest[len("sha256:"):] }

// tag returns a version as a tag of an image, which has no ~ and no +.
func tag(version string) string {
	return string(bytes.Map(func(r rune) rune {
		if r == '~' || r == '+' {
			return '-'
		}
		return r
	}, []byte(version)))
}
