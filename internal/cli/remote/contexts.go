package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"drover/internal/cli/term"
	"drover/internal/config"
	"drover/internal/durable"
)

// Context is a server, and the sign-in of a person there.
type Context struct {
	Name   string `json:"name"`
	Server string `json:"server"`
	// CA holds the certificates of the server's authorities as PEM; empty means those of the system.
	CA string `json:"ca,omitempty"`
	// User, Token and ExpiresAt are empty if the person is signed out.
	User      string    `json:"user,omitempty"`
	Token     string    `json:"token,omitempty"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// SignedIn reports whether the context has a token that has not expired.
func (c *Context) SignedIn() bool { return c.Token != "" && time.Now().Before(c.ExpiresAt) }

// Contexts are the contexts of a person, and the name of the one that commands use by default.
type Contexts struct {
	Current string    `json:"current,omitempty"`
	List    []Context `json:"contexts"`
}

// Find returns the context with a name; an empty name is the current context. nil means that there is none.
func (c *Contexts) Find(name string) *Context {
	if name == "" {
		name = c.Current
	}
	i := slices.IndexFunc(c.List, func(one Context) bool { return one.Name == name })
	if name == "" || i < 0 {
		return nil
	}
	return &c.List[i]
}

// Put adds a context, or replaces the context of its name.
func (c *Contexts) Put(one Context) {
	if old := c.Find(one.Name); old != nil {
		*old = one
		return
	}
	c.List = append(c.List, one)
	slices.SortFunc(c.List, func(a, b Context) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
}

// Remove removes the context with a name.
func (c *Contexts) Remove(name string) {
	c.List = slices.DeleteFunc(c.List, func(one Context) bool { return one.Name == name })
	if c.Current == name {
		c.Current = ""
	}
}

// At returns the signed-in context of a server, the current one before others; nil if there is none.
func (c *Contexts) At(server string) *Context {
	if at := c.Find(c.Current); at != nil && at.Server == server && at.SignedIn() {
		return at
	}
	i := slices.IndexFunc(c.List, func(one Context) bool { return one.Server == server && one.SignedIn() })
	if i < 0 {
		return nil
	}
	return &c.List[i]
}

// ReadContexts reads the contexts of the person; without a file there are none. It rejects a file that others can read.
func ReadContexts() (Contexts, error) {
	path := config.ClientFromEnvironment().Credentials
	if path == "" {
		return Contexts{}, nil
	}
	return readContexts(path)
}

func readContexts(path string) (all Contexts, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Contexts{}, nil
	case err != nil:
		return Contexts{}, fmt.Errorf("cannot read credentials: %w", err)
	case info.Mode().Perm()&0o077 != 0:
		return Contexts{}, fmt.Errorf("%s has mode %04o: expected 0600, because the file holds tokens; run: chmod 600 %s",
			path, info.Mode().Perm(), term.ShellWord(path))
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return Contexts{}, fmt.Errorf("cannot read credentials: %w", err)
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return Contexts{}, fmt.Errorf("cannot read credentials: %s is not JSON: %w", path, err)
	}
	return all, nil
}

// ChangeContexts has change alter the contexts of the person, and stores the result. Of several programs that do so at
// the same time each sees the result of the one before.
func ChangeContexts(change func(*Contexts) error) error {
	path := config.ClientFromEnvironment().Credentials
	if path == "" {
		return errors.New("cannot store credentials: neither XDG_CONFIG_HOME nor HOME is set")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("cannot store credentials: %w", err)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("cannot store credentials: %w", err)
	}
	defer dir.Close() //nolint:errcheck // it only holds the lock
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("cannot lock credentials: %w", err)
	}
	all, err := readContexts(path)
	if err != nil {
		return err
	}
	if err := change(&all); err != nil {
		return err
	}
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot encode credentials: %w", err)
	}
	if err := durable.Replace(path, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("cannot store credentials: %w", err)
	}
	return nil
}

// NoContext is the error about a missing context.
func NoContext(name string) error {
	if name == "" {
		return term.NoSuchf("there is no current context: choose one with 'drover context use NAME'")
	}
	return term.NoSuchf("there is no context %q: 'drover context list' lists them, 'drover login URL' makes one", name)
}

// ContextNames completes the name of a context.
func ContextNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	all, err := ReadContexts()
	if err == nil { // without them there is nothing to offer
		for _, c := range all.List {
			names = append(names, c.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
