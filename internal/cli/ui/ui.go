// Package ui is the terminal screen of drover. Update is a function of the state and a message, and View a function of
// the state: neither knows a clock, a server or a terminal. A caller does what Update wants done, through /api/v1 with
// the rights of the person. The library of the terminal (bubbletea) is known here only.
package ui

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	"drover/internal/config"
	"drover/internal/words"
)

// New returns 'drover ui'.
func New() *cobra.Command {
	var s remote.Session
	readOnly := false
	cmd := &cobra.Command{
		Use:  "ui [NAMESPACE/NAME]",
		Args: term.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			filter := strings.Join(args, "")
			if _, err := parse(place{kind: processes, filter: filter}, words.English); err != nil {
				return term.Usagef("%w", err)
			}
			in, out := cmd.InOrStdin(), cmd.OutOrStdout()
			if !term.IsTerminal(in) || !term.Rewritable(out) {
				return term.Usagef("drover ui needs a terminal: use 'drover ps' in a script")
			}
			return screen(cmd, &s, filter, readOnly)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&readOnly, "read-only", false, "offer no operations")
	s.LastingFlags(cmd)
	return cmd
}

// screen shows the screen until the person leaves.
func screen(cmd *cobra.Command, s *remote.Session, filter string, readOnly bool) error {
	in, out, stderr := cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	notices := &noticeWriter{}
	cmd.SetErr(notices) // the screen shows what the server says of its answers
	defer cmd.SetErr(stderr)
	c, err := s.Client(cmd)
	if err != nil {
		return err
	}
	state := State{
		coloured: s.Coloured(out), readOnly: readOnly, server: c.Address(), user: personOf(s, c),
		lang:   term.Lang(cmd, out),
		suffix: strings.TrimPrefix(s.Again(""), "drover "),
	}
	calls := &caller{client: c, lang: state.lang}
	err = run(cmd.Context(), in, out, state, filter, calls, notices, Update)
	if errors.Is(err, tea.ErrProgramKilled) && cmd.Context().Err() != nil {
		return nil // a signal has ended the screen
	}
	if err != nil {
		return fmt.Errorf("the screen has failed: %w", err)
	}
	return nil
}

// personOf is the user for whom a client calls; empty if only the server knows.
func personOf(s *remote.Session, c *client.Client) string {
	if strings.HasPrefix(c.Address(), "/") {
		return config.ClientFromEnvironment().User
	}
	return cmp.Or(c.Caller(), s.User)
}

// framesEach is the largest number of frames in a second: a person reads no more, and a slow line carries no more.
const framesEach = 10

// updater is Update, or a function in its place.
type updater func(State, tea.Msg) (State, []Do)

// run shows the screen on a terminal until the person leaves or ctx ends. The terminal is then as it was before, after
// a panic too.
func run(ctx context.Context, in io.Reader, out io.Writer, s State, filter string, calls *caller,
	notices *noticeWriter, next updater,
) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	state, first := Begin(s, filter, time.Now())
	p := tea.NewProgram(&model{state: state, first: first, calls: calls, next: next},
		tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler(),
		tea.WithFPS(framesEach))
	calls.life, calls.send = ctx, p.Send
	notices.set(func(text string) { go p.Send(Notice(text)) })
	_, err := p.Run()
	return err
}

// model joins Update and View to the terminal library.
type model struct {
	state State
	first []Do
	calls *caller
	next  updater
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return tea.Batch(append(m.commands(m.first), tick())...) }

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var do []Do
	m.state, do = m.next(m.state, msg)
	all := m.commands(do)
	if _, ok := msg.(Tick); ok {
		all = append(all, tick())
	}
	return m, tea.Batch(all...)
}

// View implements tea.Model.
func (m *model) View() tea.View {
	v := tea.NewView(View(m.state))
	v.AltScreen = true
	return v
}

func (m *model) commands(all []Do) (commands []tea.Cmd) {
	for _, d := range all {
		commands = append(commands, m.calls.do(d))
	}
	return commands
}

func tick() tea.Cmd {
	return tea.Tick(time.Second, func(now time.Time) tea.Msg { return Tick(now) })
}

// noticeWriter passes each message on to the screen.
type noticeWriter struct{ to func(text string) }

func (n *noticeWriter) set(to func(text string)) { n.to = to }

// Write implements io.Writer.
func (n *noticeWriter) Write(text []byte) (int, error) {
	if n.to != nil {
		n.to(term.Printable(string(bytes.TrimSpace(text))))
	}
	return len(text), nil
}
