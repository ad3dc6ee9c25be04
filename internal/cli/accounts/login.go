package accounts

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	"drover/internal/command"
	"drover/internal/config"
)

// NewLogin returns the command that signs a command line or a browser in.
func NewLogin() *cobra.Command {
	var s remote.Session
	var ca string
	cmd := &cobra.Command{
		Use:  "login [USER|URL]",
		Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := place(&s, args, ca)
			if err != nil {
				return err
			}
			if at.Server != "" {
				return signIn(cmd, &s, at)
			}
			return link(cmd, &s, args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	s.WaitingFlags(cmd, term.AsText, term.AsJSON, term.AsYAML)
	cmd.Flags().StringVar(&ca, "ca", "", "with URL: a file with the CA of the server's certificate, as PEM")
	return cmd
}

// place returns the context to sign in to. Its server is empty if the command is to print a link.
func place(s *remote.Session, args []string, ca string) (remote.Context, error) {
	at := remote.Context{Name: s.Context()}
	switch {
	case len(args) > 0 && strings.Contains(args[0], "://"):
		if s.Server() != "" {
			return at, term.Usagef("--server and URL exclude each other")
		}
		at.Server = args[0]
	case len(args) == 0 && s.Context() != "":
		all, err := remote.ReadContexts()
		if err != nil {
			return at, err
		}
		known := all.Find(s.Context())
		if known == nil {
			return at, remote.NoContext(s.Context())
		}
		at.Server, at.CA = known.Server, known.CA
	case len(args) == 0 && s.Server() != "":
		env := config.ClientFromEnvironment()
		if env.AppCode+env.UserToken == "" {
			at.Server = s.Server()
		}
	}
	if at.Server == "" && ca != "" {
		return at, term.Usagef("--ca is for 'drover login URL'")
	}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return at, term.Usagef("--ca: cannot read the CA: %w", err)
		}
		at.CA = string(pem)
	}
	if at.Server == "" {
		return at, nil
	}
	return at, checkServer(&at)
}

// checkServer checks the URL of a server, and brings it into one form.
func checkServer(at *remote.Context) error {
	u, err := url.Parse(at.Server)
	if err != nil || u.Host == "" {
		return term.Usagef("%q is not a URL: expected https://HOST:PORT", at.Server)
	}
	ip := net.ParseIP(u.Hostname())
	loopback := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	if u.Scheme != "https" && (u.Scheme != "http" || !loopback) {
		return term.Usagef("%q: expected https, because the token would be readable on its way", at.Server)
	}
	at.Server = strings.TrimRight(u.String(), "/")
	at.Name = cmp.Or(at.Name, u.Host)
	return nil
}

// link prints a link that signs a browser in.
func link(cmd *cobra.Command, s *remote.Session, args []string) error {
	c, err := s.Client(cmd)
	if err != nil {
		return err
	}
	user := ""
	if len(args) > 0 {
		user = args[0]
	}
	made, err := c.SignIn(cmd.Context(), user)
	if err != nil {
		return remote.ExitOf(err)
	}
	w := cmd.OutOrStdout()
	if s.Form != term.AsText {
		err = term.PrintValue(w, s.Form, made)
	} else {
		_, err = io.WriteString(w, term.Printable(made.URL)+"\n")
	}
	if err == nil {
		term.Say(cmd, "open the link within 10 minutes; it signs %s in once\n", term.Printable(made.User))
	}
	return err
}

// signIn signs this command line in: it waits until the person has confirmed, and stores the token.
func signIn(cmd *cobra.Command, s *remote.Session, at remote.Context) error {
	c, err := s.ClientAt(cmd, at.Server, at.CA)
	if err != nil {
		return err
	}
	name := config.Account()
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	device, err := c.CreateDevice(cmd.Context(), term.Printable(name))
	if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); unknown && at.CA == "" {
		term.Say(cmd, "the certificate is not of an authority of this system: give the CA of the fleet with --ca FILE, "+
			"which is server/pki/ca.pem in the data directory of the server\n")
	}
	if err != nil {
		return remote.ExitOf(err)
	}
	term.Say(cmd, "open %s%s and type these letters within %s:\n\n    %s\n\nwaiting until you confirm ...\n",
		at.Server, term.Printable(device.Path), time.Until(device.ExpiresAt).Round(time.Minute),
		term.Printable(device.Code))
	state, err := confirmed(cmd.Context(), c, &device)
	if err != nil {
		return err
	}
	at.User, at.Token = state.User, device.Token
	if state.ExpiresAt != nil {
		at.ExpiresAt = *state.ExpiresAt
	}
	var old remote.Context
	if err := remote.ChangeContexts(func(all *remote.Contexts) error {
		if had := all.Find(at.Name); had != nil {
			old = *had
		}
		all.Put(at)
		all.Current = at.Name
		return nil
	}); err != nil {
		return err
	}
	if err := endSignIn(cmd.Context(), &old); err != nil {
		sayGoesOn(cmd, &old, err)
	}
	term.Say(cmd, "signed in as %s at %s until %s; the current context is %s\n", term.Printable(at.User), at.Server,
		term.Stamp(&at.ExpiresAt), term.Printable(at.Name))
	return nil
}

// confirmed waits until a person has confirmed a sign-in.
func confirmed(ctx context.Context, c *client.Client, d *v1.Device) (v1.DeviceState, error) {
	interval := max(time.Duration(d.Interval)*time.Second, time.Second)
	for {
		select {
		case <-ctx.Done():
			return v1.DeviceState{}, &command.ExitError{
				Code: command.Unreachable, Err: errors.New("nobody has confirmed the sign-in"),
			}
		case <-time.After(interval):
		}
		state, err := c.DeviceState(ctx, d.Token)
		if _, lost := errors.AsType[*client.UnreachableError](err); lost && time.Now().Before(d.ExpiresAt) {
			continue // a server that restarts remembers the sign-in
		}
		if refusal, ok := errors.AsType[*v1.Problem](err); ok && refusal.Status == http.StatusNotFound {
			return state, &command.ExitError{
				Code: command.Denied, Err: errors.New("you are not signed in: the sign-in was rejected, or its time is over"),
			}
		}
		if err != nil {
			return state, fmt.Errorf("cannot sign in: %w", remote.ExitOf(err))
		}
		if state.State == v1.DeviceSignedIn {
			return state, nil
		}
	}
}
