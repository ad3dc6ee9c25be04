// Command image writes the container image of the drover server, without a daemon:
//
//	image -binary FILE -arch ARCH -version VERSION -out FILE [-add FILE:PATH]...
//
// The archive is an OCI image layout (OCI image specification 1.1) and holds manifest.json as well, so 'docker load',
// 'podman load' and 'skopeo copy oci-archive:' read it. SOURCE_DATE_EPOCH dates all files, so the same input gives the
// same bytes.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// settings are what the flags say.
type settings struct {
	binary, arch, version, out string
	// add lists files of the image beside the program, as FILE:PATH.
	add   list
	level int
	at    time.Time
}

// list is a flag that may be repeated.
type list []string

func (l *list) String() string { return strings.Join(*l, " ") }

// Set implements flag.Value.
func (l *list) Set(text string) error {
	*l = append(*l, text)
	return nil
}

func run(args []string) error {
	var s settings
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.StringVar(&s.binary, "binary", "", "the program drover, linked statically")
	flags.StringVar(&s.arch, "arch", "", "architecture as Go names it")
	flags.StringVar(&s.version, "version", "", "version of drover")
	flags.StringVar(&s.out, "out", "", "archive to write")
	flags.Var(&s.add, "add", "a further file of the image, as FILE:PATH; may be repeated")
	flags.IntVar(&s.level, "level", gzip.BestCompression, "level of gzip, from 1 to 9")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var faults []error
	for name, value := range map[string]string{"binary": s.binary, "arch": s.arch, "version": s.version, "out": s.out} {
		if value == "" {
			faults = append(faults, fmt.Errorf("-%s: expected a value", name))
		}
	}
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64) //nolint:forbidigo // it is how builds are dated
	if err != nil {
		faults = append(faults, errors.New("SOURCE_DATE_EPOCH: expected seconds since 1970"))
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	s.at = time.Unix(seconds, 0).UTC()
	layer, err := s.layer()
	if err != nil {
		return err
	}
	archive, err := s.archive(layer)
	if err != nil {
		return err
	}
	return os.WriteFile(s.out, archive, 0o644)
}

// The account of the server has no name in the file system of the image: it needs none.
const (
	account = 65532
	dataDir = "/var/lib/drover"
)

// layer returns the files of the image as a tar.
func (s *settings) layer() ([]byte, error) {
	roots, err := certificates()
	if err != nil {
		return nil, err
	}
	program, err := os.ReadFile(s.binary)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	t := &tree{w: tar.NewWriter(&text), at: s.at, made: map[string]bool{}}
	t.file("/usr/bin/drover", 0o755, program)
	t.file("/etc/ssl/certs/ca-certificates.crt", 0o644, roots)
	t.file("/etc/passwd", 0o644, fmt.Appendf(nil,
		"root:x:0:0:root:/:/sbin/nologin\ndrover:x:%[1]d:%[1]d:drover:%[2]s:/sbin/nologin\n", account, dataDir))
	t.file("/etc/group", 0o644, fmt.Appendf(nil, "root:x:0:\ndrover:x:%d:\n", account))
	for _, pair := range s.add {
		from, path, found := strings.Cut(pair, ":")
		if !found || !strings.HasPrefix(path, "/") {
			return nil, fmt.Errorf("-add %s: expected FILE:PATH with an absolute path", pair)
		}
		data, err := os.ReadFile(from)
		if err != nil {
			return nil, err
		}
		t.file(path, 0o644, data)
	}
	t.dir("/tmp", 0o1777, 0)
	// A new volume takes owner and mode of the directory that it covers.
	t.dir(dataDir, 0o700, account)
	if err := errors.Join(t.err, t.w.Close()); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}

// tree writes files with the directories above them. The first error stays.
type tree struct {
	w    *tar.Writer
	at   time.Time
	made map[string]bool
	err  error
}

func (t *tree) file(path string, mode int64, data []byte) {
	t.above(path)
	t.put(&tar.Header{Typeflag: tar.TypeReg, Name: path[1:], Mode: mode, Size: int64(len(data))}, data)
}

func (t *tree) dir(path string, mode int64, owner int) {
	t.above(path)
	t.put(&tar.Header{Typeflag: tar.TypeDir, Name: path[1:] + "/", Mode: mode, Uid: owner, Gid: owner}, nil)
}

// above makes the directories above a path, once each.
func (t *tree) above(path string) {
	for i := 1; i < len(path); i++ {
		if path[i] == '/' && !t.made[path[:i]] {
			t.made[path[:i]] = true
			t.put(&tar.Header{Typeflag: tar.TypeDir, Name: path[1:i] + "/", Mode: 0o755}, nil)
		}
	}
}

func (t *tree) put(header *tar.Header, data []byte) {
	header.ModTime, header.Format = t.at, tar.FormatUSTAR
	if t.err == nil {
		t.err = t.w.WriteHeader(header)
	}
	if t.err == nil {
		_, t.err = t.w.Write(data)
	}
}

// pack compresses a layer. Its header has neither time nor name.
func pack(data []byte, level int) ([]byte, error) {
	var text bytes.Buffer
	w, err := gzip.NewWriterLevel(&text, level)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(w, bytes.NewReader(data))
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}
