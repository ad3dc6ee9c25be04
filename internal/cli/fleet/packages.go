package fleet

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	"drover/internal/process"
	"drover/internal/release"
)

// NewPackages returns the commands about the versions of the agent that hosts can take from the server.
func NewPackages() *cobra.Command {
	cmd := remote.Resource[v1.Package]{
		Use: "packages",
		List: remote.List[v1.Package]{
			Use:     "list",
			None:    "there are no packages",
			ID:      func(p v1.Package) string { return p.Version + "/" + p.Arch },
			Columns: packageColumns(),
			Rows: func(ctx context.Context, c *client.Client, _ []string) ([]v1.Package, error) {
				return client.Collect(c.Packages(ctx))
			},
		},
		Verbs: []remote.Verb[v1.Package]{{
			Use: "remove VERSION ARCH",
			Call: func(ctx context.Context, c *client.Client, args []string) (v1.Package, error) {
				return v1.Package{}, c.RemovePackage(ctx, args[0], args[1])
			},
			Done: "version %s was removed",
		}},
	}.Command()
	cmd.AddCommand(newPackagesAdd(), newPackagesKeygen(), newPackagesSign())
	return cmd
}

func packageColumns() []term.Column[v1.Package] {
	return []term.Column[v1.Package]{
		{Head: "VERSION", Cell: func(p v1.Package) string { return p.Version }},
		{Head: "ARCH", Cell: func(p v1.Package) string { return p.Arch }},
		{Head: "SIZE", Cell: func(p v1.Package) string { return term.Size(p.Size) }},
		{Head: "SIGNED", Cell: func(p v1.Package) string { return term.Stamp(&p.SignedAt) }},
		{Head: "NOTES", Cell: packageNotes},
		{Head: "FORMAT", Wide: true, Cell: func(p v1.Package) string { return fmt.Sprint(p.Format) }},
		{Head: "ADDED", Wide: true, Cell: func(p v1.Package) string { return term.Stamp(&p.AddedAt) }},
		{Head: "BY", Wide: true, Cell: func(p v1.Package) string { return p.AddedBy }},
		{Head: "SHA256", Wide: true, Cell: func(p v1.Package) string { return p.SHA256 }},
		{Head: "KEY", Wide: true, Cell: func(p v1.Package) string { return p.Key }},
	}
}

func packageNotes(p v1.Package) string {
	switch {
	case len(p.Missing) > 0:
		return "incomplete: add it again"
	case p.Downgrade:
		return "signed as a downgrade"
	}
	return ""
}

func newPackagesAdd() *cobra.Command {
	var s remote.Session
	signature := ""
	cmd := &cobra.Command{
		Use:  "add FILE",
		Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			program, d, signed, err := readPackage(args[0], signature)
			if err != nil {
				return err
			}
			c, err := s.Client(cmd)
			if err != nil {
				return err
			}
			p, err := c.AddPackage(cmd.Context(), signed)
			if err != nil {
				return remote.ExitOf(err)
			}
			for _, n := range p.Missing {
				if n < 0 || n >= len(d.Pieces) {
					return fmt.Errorf("the server asks for piece %d of a package of %d", n, len(d.Pieces))
				}
				from := n * release.PieceSize
				piece := program[from:min(from+release.PieceSize, len(program))]
				if err := c.PutPiece(cmd.Context(), d.Version, d.Arch, n, piece); err != nil {
					return remote.ExitOf(err)
				}
			}
			term.Say(cmd, "version %s for %s is there: %s sent\n", d.Version, d.Arch,
				process.Count(len(p.Missing), "piece", "pieces"))
			return nil
		},
	}
	cmd.Flags().StringVar(&signature, "signature", "", "file of the signature (default FILE.sig)")
	s.Flags(cmd)
	return cmd
}

// readPackage reads a program and its signature, and checks that they belong together.
func readPackage(path, signature string) (program []byte, d release.Package, signed string, err error) {
	if signature == "" {
		signature = path + ".sig"
	}
	program, programErr := readBounded(path, release.MaxSize)
	if programErr != nil {
		programErr = fmt.Errorf("cannot read program: %w", programErr)
	}
	text, err := readBounded(signature, release.MaxSigned)
	if err != nil {
		err = fmt.Errorf("cannot read signature: %w (drover packages sign makes it)", err)
		return nil, d, "", errors.Join(programErr, err)
	}
	if d, _, err = release.Open(text, nil); err != nil {
		return nil, d, "", errors.Join(programErr, fmt.Errorf("%s refused: %w", signature, err))
	}
	if programErr != nil {
		return nil, d, "", programErr
	}
	if got := release.Describe(d.Version, d.Arch, d.Format, program); got.SHA256 != d.SHA256 || got.Size != d.Size {
		return nil, d, "", fmt.Errorf("%s is not the program that %s describes: its sum is %s, expected %s", path,
			signature, got.SHA256, d.SHA256)
	}
	return program, d, string(text), nil
}

func readBounded(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return text, err
}

func newPackagesKeygen() *cobra.Command {
	return &cobra.Command{
		Use:  "keygen FILE",
		Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			public, private, err := ed25519.GenerateKey(rand.Reader)
			if err != nil {
				return err
			}
			f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return fmt.Errorf("cannot make release key: %w", err)
			}
			_, err = f.Write(release.SeedText(private))
			if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
				return fmt.Errorf("cannot make release key: %w", err)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), release.KeyText(public))
			return err
		},
	}
}

func newPackagesSign() *cobra.Command {
	var key, version string
	var format int
	var downgrade bool
	cmd := &cobra.Command{
		Use:  "sign FILE --key FILE --version VERSION",
		Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			if key == "" || version == "" {
				return term.Usagef("--key and --version are needed")
			}
			private, keyErr := readSeed(key)
			program, arch, programErr := readProgram(args[0])
			var formatErr, versionErr error
			if format < 1 {
				formatErr = term.Usagef("--format %d: expected 1 or more", format)
			}
			if err := release.CheckVersion(version); err != nil {
				versionErr = term.Usagef("--%w", err)
			}
			if err := errors.Join(versionErr, formatErr, keyErr, programErr); err != nil {
				return err
			}
			d := release.Describe(version, arch, format, program)
			d.Downgrade = downgrade
			signed, err := release.Seal(d, private, time.Now())
			if err != nil {
				return err
			}
			if err := os.WriteFile(args[0]+".sig", signed, 0o644); err != nil { //nolint:gosec // it holds no secret
				return fmt.Errorf("cannot write signature: %w", err)
			}
			term.Say(cmd, "signed version %s for %s in %s.sig\n", version, arch, args[0])
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&key, "key", "", "file of the private release key")
	flags.StringVar(&version, "version", "", "version of the program, such as 1.4.0")
	flags.IntVar(&format, "format", release.Format, "the record format of the program; default: that of this drover")
	flags.BoolVar(&downgrade, "downgrade", false, "let hosts with a later version take the package, too")
	return cmd
}

// readSeed reads a private release key.
func readSeed(path string) (ed25519.PrivateKey, error) {
	seed, err := readBounded(path, release.MaxSigned)
	if err != nil {
		return nil, fmt.Errorf("cannot read release key: %w", err)
	}
	private, err := release.ParseSeed(seed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return private, nil
}

// readProgram reads a program of the agent.
func readProgram(path string) (program []byte, arch string, err error) {
	if program, err = readBounded(path, release.MaxSize); err != nil {
		return nil, "", fmt.Errorf("cannot read program: %w", err)
	}
	if arch, err = archOf(program); err != nil {
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	return program, arch, nil
}

// agentName begins the name of the agent's main package, in a fork of drover, too.
const agentName = "drover-agent"

// archOf returns the architecture of a program of the agent.
func archOf(program []byte) (string, error) {
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return "", fmt.Errorf("it is not a program of Linux: %w", err)
	}
	arch, known := map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}[f.Machine]
	if !known {
		return "", fmt.Errorf("it is for %s: expected amd64 or arm64", f.Machine)
	}
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil { // that it is no program of Go says less
		return "", fmt.Errorf("it is not a program of drover: expected %s", agentName)
	}
	if name := filepath.Base(info.Path); !strings.HasPrefix(name, agentName) {
		return "", fmt.Errorf("it is the program %.100q: expected %s", name, agentName)
	}
	return arch, nil
}
