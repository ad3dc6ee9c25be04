// Package inspect has the commands that look at a whole installation: doctor finds what is wrong with it, and top shows
// which processes use how much.
package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	"drover/internal/command"
	"drover/internal/words"
)

// The levels of findings.
const (
	levelOK      = "ok"
	levelWarning = "warning"
	levelProblem = "problem"
)

// finding is what a check has found.
type finding struct {
	Check   string `json:"check"`
	Level   string `json:"level"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

// findings collects what the checks have found.
type findings []finding

func (f *findings) ok(check, format string, args ...any) {
	*f = append(*f, finding{check, levelOK, fmt.Sprintf(format, args...), ""})
}

func (f *findings) warn(check, remedy, format string, args ...any) {
	*f = append(*f, finding{check, levelWarning, fmt.Sprintf(format, args...), remedy})
}

func (f *findings) problem(check, remedy, format string, args ...any) {
	*f = append(*f, finding{check, levelProblem, fmt.Sprintf(format, args...), remedy})
}

// NewDoctor returns 'drover doctor'.
func NewDoctor() *cobra.Command {
	var s remote.Session
	var agentDir string
	cmd := &cobra.Command{
		Use:  "doctor",
		Args: term.Args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			whole := cmd.Context() // a server that does not answer takes the time of the session
			var f findings
			address, reached, err := f.server(cmd, &s, onlyAgent(s.DataDir(), agentDir))
			if err != nil {
				return err
			}
			f.machine(whole, s.DataDir(), agentDir, address)
			if err := f.print(cmd, s.Output); err != nil {
				return err
			}
			wrong := slices.ContainsFunc(f, func(one finding) bool { return one.Level == levelProblem })
			switch {
			case !reached:
				return &command.ExitError{Code: command.Unreachable}
			case wrong:
				return &command.ExitError{Code: command.Wrong}
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	s.Flags(cmd, term.AsText, term.AsJSON, term.AsYAML)
	cmd.Flags().StringVar(&agentDir, "agent-dir", "",
		"data directory of the agent on this host (default: that of --data-dir, else "+packagedAgent+")")
	return cmd
}

func (f *findings) print(cmd *cobra.Command, o term.Output) error {
	w := cmd.OutOrStdout()
	if o.Form != term.AsText {
		return term.PrintValue(w, o.Form, *f)
	}
	for _, one := range *f {
		level := words.Named(one.Level, o.Lang(w))
		if o.Coloured(w) {
			level = term.PaintAs(one.Level, level)
		}
		if _, err := fmt.Fprintf(w, "%s %s %s: %s\n", words.ClassOf(one.Level).Mark(), level, one.Check,
			term.Told(cmd, w, term.Printable(one.Message))); err != nil {
			return err
		}
		if one.Remedy == "" {
			continue
		}
		remedy := term.Told(cmd, w, term.Printable(one.Remedy))
		if _, err := fmt.Fprintln(w, term.Told(cmd, w, "    remedy: "+remedy)); err != nil {
			return err
		}
	}
	return nil
}

// server checks the server and its hosts. address is that of the server; reached reports whether it has answered.
// agentOnly says that this machine has an agent and no server: then nobody needs to have chosen a server.
func (f *findings) server(cmd *cobra.Command, s *remote.Session, agentOnly bool) (address string,
	reached bool, err error,
) {
	c, err := s.Client(cmd)
	if err != nil {
		if _, usage := errors.AsType[*command.UsageError](err); usage {
			return "", false, err
		}
		const remedy = "choose a server, or sign in: 'drover login URL'"
		exit, _ := errors.AsType[*command.ExitError](err)
		none := exit != nil && exit.Code == command.Unreachable
		if none && agentOnly {
			f.warn("server", remedy, "%v", err)
			return "", true, nil
		}
		f.problem("server", remedy, "%v", err)
		return "", exit != nil && !none, nil
	}
	begun := time.Now()
	state, err := c.Server(cmd.Context())
	took := time.Since(begun)
	if refusal, refused := errors.AsType[*v1.Problem](err); refused {
		f.refused(refusal)
	} else if err != nil {
		f.problem("server", "start the server, or check address, network and firewall",
			"%v", err)
		return c.Address(), false, nil
	} else {
		f.ok("server", "it answers in %s", took.Round(time.Millisecond))
		f.state(&state, state.Now.Sub(begun.Add(took/2)))
	}
	f.hosts(cmd.Context(), s, c, state.Version)
	f.rollouts(cmd.Context(), s, c)
	f.packages(cmd.Context(), s, c)
	return c.Address(), true, nil
}

// refused is about a server that answers, and does not tell its state.
func (f *findings) refused(e *v1.Problem) {
	switch e.Status {
	case http.StatusUnauthorized:
		f.problem("server", "sign in with 'drover login URL', or check the credentials in the environment", "it rejects the credentials: %v", e)
	case http.StatusForbidden:
		f.ok("server", "it answers; only an administrator may see its state")
	case http.StatusNotFound:
		f.warn("version", "upgrade the server", "the server is older than this command line, and does not tell its state")
	default:
		f.problem("server", "look at the log of the server", "%v", e)
	}
}

// Bounds of the checks.
const (
	// clockWarning and clockProblem are differences between clocks. Credentials expire by the clock of the server, and
	// ages in the output are by the clock of this machine.
	clockWarning = 2 * time.Second
	clockProblem = time.Minute
	// endsSoon is when a certificate that has not been renewed is a warning: servers renew theirs 30 days before.
	endsSoon = 14 * 24 * time.Hour
	// awayShown is how many hosts a finding names.
	awayShown = 5
)

// serverDisk is the check of the disk that the server tells of.
const serverDisk = "server's disk"

// state checks what the server says of itself. ahead is how far its clock is ahead of the clock of this machine.
func (f *findings) state(s *v1.Server, ahead time.Duration) {
	if s.Problem == "" {
		f.ok("readiness", "the server is ready, and its database accepts writes")
	} else {
		f.problem("readiness", "look at the log of the server", "the server is not ready: %s", s.Problem)
	}
	for _, note := range s.Notes {
		f.warn("readiness", "", "%s", note)
	}
	if mine := command.Build(); mine == s.Version {
		f.ok("version", "command line and server have version %s", mine)
	} else {
		f.warn("version", "install the same version", "this command line has version %s, the server %s",
			mine, s.Version)
	}
	switch apart := ahead.Abs().Round(time.Millisecond); {
	case apart >= clockProblem:
		f.problem("clock", "let a time service such as chrony set both clocks",
			"the clocks of this machine and of the server differ by %s", apart)
	case apart >= clockWarning:
		f.warn("clock", "let a time service such as chrony set both clocks",
			"the clocks of this machine and of the server differ by %s", apart)
	default:
		f.ok("clock", "this machine and the server agree within %s", clockWarning)
	}
	for _, c := range s.Certificates {
		f.certificate(c, s.Now)
	}
	if s.Disk != nil {
		f.space(serverDisk, s.Disk.Free, s.Disk.Size)
	}
	f.unknown(s.UnknownHosts)
}

// unknown names the hosts that report in vain, as after a restore of the database.
func (f *findings) unknown(hosts []v1.UnknownHost) {
	named := make([]string, len(hosts))
	for i, h := range hosts {
		named[i] = fmt.Sprintf("%s (area %d, key %s, since %s)", cmp.Or(h.Address, "?"), h.Cloud, h.Key,
			term.Stamp(&h.FirstSeenAt))
	}
	if len(named) > 0 {
		f.warn("hosts", "have each join again: 'drover token create', then 'drover-agent join' on the host",
			"the database does not know hosts that report: %s", some(named))
	}
}

func (f *findings) certificate(c v1.Certificate, now time.Time) {
	const remedy = "see docs/ops/rotation.md: 'drover keys list' shows the authorities; renew a certificate of your own"
	end := c.EndsAt.Format(time.DateOnly)
	switch left := c.EndsAt.Sub(now); {
	case left <= 0:
		f.problem("certificate", remedy, "%s has expired on %s", c.Name, end)
	case left < endsSoon:
		f.warn("certificate", remedy, "%s expires on %s", c.Name, end)
	default:
		f.ok("certificate", "%s is valid until %s", c.Name, end)
	}
}

// space checks the room of a file system, in bytes.
func (f *findings) space(check string, free, size int64) {
	const remedy = "delete files, or enlarge the file system; a server with a full disk still stops, kills and unhosts"
	text := fmt.Sprintf("%s of %s are free", term.Size(free), term.Size(size))
	switch {
	case free < 128<<20 || free < size/50:
		f.problem(check, remedy, "%s", text)
	case scarce(free, size):
		f.warn(check, remedy, "%s", text)
	default:
		f.ok(check, "%s", text)
	}
}

// scarce reports whether a file system has so little room that a person should look, in bytes.
func scarce(free, size int64) bool { return free < 128<<20 || free < size/10 }

// hosts checks the agents.
func (f *findings) hosts(ctx context.Context, s *remote.Session, c *client.Client, version string) {
	var away []string
	builds := map[string]int{}
	noted := map[string][]string{} // hosts by what their agents note
	known := 0
	for a, err := range c.Hosts(ctx, client.HostFilter{}) {
		if err != nil {
			f.warn("hosts", "", "cannot list the hosts: %v", err)
			return
		}
		known++
		builds[a.Build]++
		if !a.Online {
			away = append(away, a.ID)
		}
		for _, note := range a.Notes {
			noted[note] = append(noted[note], a.ID)
		}
	}
	for _, note := range slices.Sorted(maps.Keys(noted)) {
		f.warn("hosts", "", "%s: %s", some(noted[note]), note)
	}
	switch {
	case len(away) > 0:
		f.problem("hosts", "on the host: systemctl status drover-agent", "%d of %d hosts are away: %s",
			len(away), known, some(away))
	case known > 0:
		f.ok("hosts", "%d of %d hosts are online", known, known)
	default:
		f.ok("hosts", "there is no host that you may see")
	}
	delete(builds, version)
	delete(builds, "") // of a host that has not reported yet
	if version == "" || len(builds) == 0 {
		return
	}
	var others []string
	for _, b := range slices.Sorted(maps.Keys(builds)) {
		others = append(others, fmt.Sprintf("%s ×%d", b, builds[b]))
	}
	f.warn("version", s.Again("hosts upgrade HOST --to VERSION"), "agents have other versions than the server: %s",
		some(others))
}

// rollouts names the rollouts that wait for a person.
func (f *findings) rollouts(ctx context.Context, s *remote.Session, c *client.Client) {
	stopped := 0
	for r, err := range remote.StoppedRollouts(ctx, c, nil, "") {
		if err != nil {
			f.warn("rollouts", "", "cannot list the rollouts: %v", err)
			return
		}
		stopped++
		text, command := remote.StoppedText(&r)
		f.warn("rollouts", s.AgainIn(command), "%s", text)
	}
	if stopped == 0 {
		f.ok("rollouts", "no rollout is paused or held")
	}
}

// packages names the versions of the agent that have no whole program, as after a restore.
func (f *findings) packages(ctx context.Context, s *remote.Session, c *client.Client) {
	var lacking []string
	known := 0
	for p, err := range c.Packages(ctx) {
		if refusal, refused := errors.AsType[*v1.Problem](err); refused && refusal.Status == http.StatusForbidden {
			return
		}
		if err != nil {
			f.warn("packages", "", "cannot list the packages: %v", err)
			return
		}
		known++
		if len(p.Missing) > 0 {
			lacking = append(lacking, p.Version+"/"+p.Arch)
		}
	}
	switch {
	case len(lacking) > 0:
		f.warn("packages", s.Again("packages add FILE")+", or "+s.Again("packages remove VERSION ARCH"),
			"hosts cannot upgrade to packages without their whole program: %s", some(lacking))
	case known > 0:
		f.ok("packages", "every package has its whole program")
	}
}

// some names the first words of a list.
func some(list []string) string {
	if more := len(list) - awayShown; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:awayShown], ", "), more)
	}
	return strings.Join(list, ", ")
}
