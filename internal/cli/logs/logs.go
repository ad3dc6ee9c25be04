// Package logs has the command that shows what processes have written.
package logs

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/list"
	"drover/internal/cli/remote"
	"drover/internal/cli/selection"
	"drover/internal/cli/term"
	"drover/internal/cli/why"
	"drover/internal/command"
	"drover/internal/pattern"
	"drover/internal/process"
)

// NewLogs returns 'drover logs'.
func NewLogs() *cobra.Command {
	var s remote.Session
	var f client.LogFilter
	var sel remote.Choice
	var p logPrinter
	since, onlyErrors := "", false
	cmd := &cobra.Command{
		Use:  "logs NAMESPACE/NAME",
		Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, name, malformed := term.SplitID(args[0])
			f.OnlyNew = cmd.Flags().Changed("tail") && f.Tail == 0
			if onlyErrors {
				f.Stream = "stderr"
			}
			c, err := sel.Connect(cmd, &s)
			if err != nil {
				return err
			}
			if malformed != nil {
				return selection.SuggestNamespace(cmd.Context(), c, args[0], malformed)
			}
			if err := sel.First(cmd.Context(), c, namespace, name); err != nil {
				return err
			}
			f.Hosts, f.Selector, f.ProcessChoice = sel.Names, sel.Selector, sel.ProcessChoice
			p.json, p.out = s.Form == term.AsJSON, cmd.OutOrStdout()
			err = p.follow(cmd, c, namespace, name, f)
			if err == nil && !p.any && !f.OnlyNew && f.Run == 0 && f.Since.IsZero() && f.Grep == "" {
				sayUnstarted(cmd, c, namespace, name, f)
			}
			if refusal, ok := errors.AsType[*v1.Problem](err); ok && refusal.Status == http.StatusNotFound {
				return sel.NoMatch(cmd.Context(), c, args[:1])
			}
			return remote.ExitOf(err)
		},
		ValidArgsFunction: remote.First(selection.CompleteProcesses(&s)),
	}
	flags := cmd.Flags()
	flags.BoolVarP(&f.Follow, "follow", "f", false, "show new lines as they come")
	sel.QueryFlags(cmd, &s, "only of these hosts")
	sel.LimitFlag(cmd)
	flags.IntVar(&f.Tail, "tail", 0, "show at most this number of lines of each log, the last ones; 0 shows none, with --follow new lines only")
	flags.StringVar(&since, "since", "", "only lines from this time on: RFC 3339, 10:00 or an age such as 10m")
	flags.IntVar(&f.Run, "run", 0, "run to show: 0 is the present or last one, -1 the one before")
	flags.BoolVar(&onlyErrors, "stderr", false, "only what the process wrote to stderr")
	flags.StringVar(&f.Grep, "grep", "", "only lines that match this regular expression (RE2)")
	flags.BoolVar(&p.raw, "raw", false, "leave control characters as they are")
	flags.BoolVar(&p.stamps, "timestamps", false, "begin each line with the time when the host saw it")
	s.WaitingFlags(cmd, term.AsText, term.AsJSON)
	term.Paged(cmd, func() bool { return !f.Follow })
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(_ *cobra.Command, args []string) error {
		moment, untimed := term.Moment("--since", since)
		f.Since = moment
		return errors.Join(selection.OnlyOne(args), untimed, checkLogs(&f))
	})
	return cmd
}

// checkLogs tells all faults of the flags.
func checkLogs(f *client.LogFilter) error {
	var faults []error
	if f.Tail < 0 {
		faults = append(faults, term.Usagef("--tail %d: expected 0 or more", f.Tail))
	}
	switch {
	case f.Run > 0:
		faults = append(faults, term.Usagef("--run %d: expected 0 for the last run, or -1 for the one before", f.Run))
	case f.Run != 0 && f.Follow:
		faults = append(faults, term.Usagef("--run and --follow exclude each other: an earlier run has ended"))
	}
	if _, err := pattern.Parse(f.Grep); err != nil {
		faults = append(faults, term.Usagef("--grep %v", err))
	}
	return errors.Join(faults...)
}

// logPrinter prints lines of logs.
type logPrinter struct {
	out io.Writer
	// json prints each line as JSON, raw with its control characters; stamps prints times, several the hosts, and
	// copies the names of the copies.
	json, raw, stamps, several, copies bool
	logs                               int
	// any tells that there was a line.
	any bool
	// last is the time of the last line.
	last time.Time
	// failed has the logs with an error, and whether their host is away.
	failed map[string]bool
}

// retryLogs is the pause before another attempt to reach a lost server.
const retryLogs = 2 * time.Second

// follow prints the log. If it follows the log and loses the server, it tries again.
func (p *logPrinter) follow(cmd *cobra.Command, c *client.Client, namespace, name string, f client.LogFilter) error {
	begun := false
	f.Begun = func(hosts, logs int) {
		p.logs, p.several, p.copies, begun = logs, hosts > 1, logs > hosts, true
	}
	for {
		err := p.print(cmd, c, namespace, name, f)
		_, away := errors.AsType[*client.UnreachableError](err)
		switch {
		case errors.Is(cmd.Context().Err(), context.Canceled):
			return nil
		case cmd.Context().Err() != nil && begun:
			return &command.ExitError{Code: command.Unreachable}
		case !f.Follow || !begun || err != nil && !away:
			if err == nil {
				err = p.verdict()
			}
			return err
		}
		if err == nil {
			err = errors.New("the server has ended the stream")
		}
		term.Say(cmd, "%v; trying again: lines of about a second may be missing or come twice\n", err)
		if !p.last.IsZero() {
			f.Since, f.Tail, f.OnlyNew = p.last, 0, false
		}
		select {
		case <-time.After(retryLogs):
		case <-cmd.Context().Done():
		}
	}
}

// sayUnstarted says why there is no line of a process that another program has started.
func sayUnstarted(cmd *cobra.Command, c *client.Client, namespace, name string, f client.LogFilter) {
	for row, err := range c.Processes(cmd.Context(), client.ProcessFilter{
		Namespace: namespace, Name: name, Hosts: f.Hosts, Selector: f.Selector, ProcessChoice: f.ProcessChoice,
		Limit: why.MaxFindings,
	}) {
		if err != nil {
			return // the answer is complete without it
		}
		if id := process.CauseID(list.CauseOf(row)); id == process.CauseOutside || id == process.CauseKept {
			term.Say(cmd, "drover did not start %s on %s: its log begins with its next start\n",
				term.Printable(row.Namespace+"/"+row.Name), term.Printable(row.Host.ID))
		}
	}
}

// verdict is the exit code for logs that have failed, as an error.
func (p *logPrinter) verdict() error {
	switch {
	case len(p.failed) == 0:
		return nil
	case len(p.failed) < p.logs:
		return &command.ExitError{Code: command.Partial}
	}
	for _, away := range p.failed {
		if !away {
			return &command.ExitError{Code: command.Failed}
		}
	}
	return &command.ExitError{Code: command.Unreachable}
}

// print prints the lines of one call.
func (p *logPrinter) print(cmd *cobra.Command, c *client.Client, namespace, name string, f client.LogFilter) error {
	w := bufio.NewWriter(p.out)
	for l, err := range c.Logs(cmd.Context(), namespace, name, f) {
		if err != nil {
			_ = w.Flush()
			return err
		}
		if l.Error != "" {
			p.noteFailure(l)
		}
		if l.Error != "" && !p.json {
			if err := w.Flush(); err != nil {
				return err
			}
			term.Say(cmd, "%s: %s\n", term.Printable(p.from(l)), term.Printable(l.Error))
			continue
		}
		if p.any = true; l.Time != nil {
			p.last = *l.Time
		}
		if err := p.line(w, l); err != nil {
			return err
		}
		if f.Follow {
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
	return w.Flush()
}

// noteFailure notes that a log has failed, for the exit code.
func (p *logPrinter) noteFailure(l v1.LogLine) {
	if p.failed == nil {
		p.failed = map[string]bool{}
	}
	p.failed[p.from(l)] = l.Error == "the host is not connected" ||
		strings.HasPrefix(l.Error, "the host has not answered")
}

// from names the log of a line.
func (p *logPrinter) from(l v1.LogLine) string {
	if p.copies {
		return l.Host + "  " + l.Name
	}
	return l.Host
}

func (p *logPrinter) line(w io.Writer, l v1.LogLine) error {
	if p.json {
		text, err := json.Marshal(l)
		if err == nil {
			_, err = fmt.Fprintf(w, "%s\n", term.HarmlessJSON(string(text)))
		}
		return err
	}
	before := ""
	if p.several {
		before = term.Printable(l.Host) + "  "
	}
	if p.copies {
		before += term.Printable(l.Name) + "  "
	}
	if p.stamps && l.Time != nil {
		before += l.Time.UTC().Format("2006-01-02T15:04:05.000Z") + " "
	}
	text := l.Text
	switch {
	case l.Lost > 0:
		text = fmt.Sprintf("[... %d bytes lost ...]", l.Lost)
	case !p.raw:
		parts := strings.Split(strings.TrimSuffix(text, "\r"), "\t")
		for i := range parts {
			parts[i] = term.Printable(parts[i])
		}
		text = strings.Join(parts, "\t")
	}
	_, err := fmt.Fprintf(w, "%s%s\n", before, text)
	return err
}
