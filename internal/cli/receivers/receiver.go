// Package receivers has the commands about alarms: receiver, which manages the addresses that get them, and silence.
package receivers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	"drover/internal/command"
)

// NewReceiver returns the commands about receivers.
func NewReceiver() *cobra.Command {
	cmd := remote.Resource[v1.Receiver]{
		Use:  "receiver",
		List: receiverList(), Names: receiverList().Names, Show: showReceiver, Once: receiverSecret,
		Verbs: []remote.Verb[v1.Receiver]{
			receiverCreate(),
			receiverChange(),
			{
				Use: "show NAME",
				Call: func(ctx context.Context, c *client.Client, args []string) (v1.Receiver, error) {
					return c.Receiver(ctx, args[0])
				},
			},
			{
				Use: "rotate-secret NAME",
				Call: func(ctx context.Context, c *client.Client, args []string) (v1.Receiver, error) {
					return c.RotateReceiver(ctx, args[0], "")
				},
			},
			{
				Use: "delete NAME",
				Call: func(ctx context.Context, c *client.Client, args []string) (v1.Receiver, error) {
					return v1.Receiver{}, c.DeleteReceiver(ctx, args[0])
				},
				Done: "receiver %s was deleted",
			},
		},
	}.Command()
	cmd.AddCommand(newReceiverTest())
	return cmd
}

func receiverList() remote.List[v1.Receiver] {
	return remote.List[v1.Receiver]{
		Use: "list", None: "no receivers",
		ID: func(w v1.Receiver) string { return w.Name },
		Columns: []term.Column[v1.Receiver]{
			{Head: "NAME", Cell: func(w v1.Receiver) string { return w.Name }},
			{Head: "STATE", State: true, Cell: deliveryState},
			{Head: "BEHIND", Cell: func(w v1.Receiver) string { return fmt.Sprint(w.Delivery.Lag) }},
			{Head: "DELIVERED", Cell: func(w v1.Receiver) string { return term.Since(w.Delivery.DeliveredAt) }},
			{Head: "FAILING", Cell: func(w v1.Receiver) string { return term.Since(w.Delivery.FailingSince) }},
			{Head: "KIND", Cell: func(w v1.Receiver) string { return w.Kind }},
			{Head: "NAMESPACES", Cell: wantedText},
			{Head: "URL", Cell: func(w v1.Receiver) string { return w.URL }},
			{Head: "ERROR", Wide: true, Cell: func(w v1.Receiver) string { return w.Delivery.Error }},
			{Head: "NOTE", Wide: true, Cell: func(w v1.Receiver) string { return w.Note }},
		},
		Rows: func(ctx context.Context, c *client.Client, _ []string) ([]v1.Receiver, error) {
			return c.Receivers(ctx)
		},
	}
}

// deliveryState is the state of a receiver's deliveries, in a word. A test delivery does not change it.
func deliveryState(w v1.Receiver) string {
	switch {
	case w.Delivery.Failures > 0:
		return "failing"
	case w.Delivery.DeliveredAt == nil:
		return "untried"
	}
	return "ok"
}

// wantedText is the namespaces whose alarms a receiver gets.
func wantedText(w v1.Receiver) string {
	if len(w.Namespaces) == 0 {
		return "all"
	}
	return strings.Join(w.Namespaces, ",")
}

func showReceiver(w v1.Receiver) (state string, fields []term.Field) {
	d := w.Delivery
	fields = []term.Field{
		{"Kind", w.Kind},
		{"URL", w.URL},
		{"Namespaces", wantedText(w)},
		{"Hosts", w.Select},
		{"Process labels", w.Labels},
		{"Severities", strings.Join(w.Severities, ",")},
		{"Alarms", strings.Join(w.Kinds, ",")},
		{"Local", term.YesNo(w.Local)},
		{"Note", w.Note},
		{"Last delivered", term.Stamp(d.DeliveredAt)},
		{"Alarms behind", fmt.Sprint(d.Lag)},
	}
	if w.Mail != nil {
		fields = append(fields, term.Field{"Mail from", w.Mail.From},
			term.Field{"Mail to", strings.Join(w.Mail.To, ",")}, term.Field{"Mail user", w.Mail.User})
	}
	fields = append(fields, term.Field{"Subject", w.Subject}, term.Field{"Template", w.Body})
	if d.Failures > 0 {
		fields = append(fields, term.Field{"Failing since", term.Stamp(d.FailingSince)},
			term.Field{"Attempts failed", fmt.Sprint(d.Failures)},
			term.Field{"Error", d.Error}, term.Field{"Next attempt", term.Stamp(d.NextAt)})
	}
	return deliveryState(w), append(fields, term.Field{"Created", term.Stamp(&w.CreatedAt)},
		term.Field{"Changed", term.Stamp(&w.ChangedAt)})
}

func receiverSecret(w v1.Receiver) (text, note string) {
	if w.Secret == "" {
		return "", ""
	}
	return fmt.Sprintf("name    %s\nsecret  %s\n", w.Name, w.Secret),
		"drover shows the secret only this once, and signs every delivery with it"
}

// receiverFlags are the flags to create or change a receiver.
type receiverFlags struct {
	url, kind            string
	namespaces           []string
	selector, labels     string
	severities, kinds    []string
	mail                 v1.Mail
	subject              string
	bodyFile, secretFile string
	local                bool
	note                 string
	// body and secret are the texts of the files.
	body, secret string
	given        func(flag string) bool
}

func (f *receiverFlags) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.url, "url", "", "address of the receiver: http or https, or smtp or smtps for mail")
	if cmd.Name() == "create" {
		flags.StringVar(&f.kind, "kind", v1.ReceiverWebhook, "the form of the alarms: webhook, alertmanager or email")
		flags.StringVar(&f.secretFile, "secret-file", "", "file with the secret of a webhook, the bearer token of an "+
			"alertmanager, or the password of a mail server")
		term.Complete(cmd, "kind", v1.ReceiverWebhook, v1.ReceiverAlertmanager, v1.ReceiverEmail)
	}
	flags.StringArrayVar(&f.namespaces, "namespace", nil,
		"pattern of namespaces whose alarms to deliver; may be repeated (default all)")
	flags.StringVarP(&f.selector, "selector", "l", "",
		"expression about the hosts whose alarms to deliver, such as role=web (default all hosts)")
	flags.StringVar(&f.labels, "process-label", "",
		"expression about the labels of the processes whose alarms to deliver, such as tier=front")
	flags.StringSliceVar(&f.severities, "severity", nil, "severities to deliver: critical, warning, notice (default all)")
	flags.StringSliceVar(&f.kinds, "alarm", nil, "kinds of alarms to deliver, such as given-up,unhealthy (default all)")
	flags.StringVar(&f.mail.From, "mail-from", "", "sender of mails")
	flags.StringArrayVar(&f.mail.To, "mail-to", nil, "recipient of mails; may be repeated")
	flags.StringVar(&f.mail.User, "mail-user", "", "user of the mail server")
	flags.StringVar(&f.subject, "subject", "", "template of the subject of mails")
	flags.StringVar(&f.bodyFile, "body-file", "", "file with the template of the text of mails, or of the JSON of a webhook")
	flags.BoolVar(&f.local, "local", false,
		"allow loopback, link-local and multicast addresses, and metadata services of clouds")
	flags.StringVar(&f.note, "note", "", "a note for administrators")
	f.given = flags.Changed
	cmd.PreRunE = term.Chain(cmd.PreRunE, func(cmd *cobra.Command, _ []string) error {
		var faults []error
		if cmd.Name() == "create" && !flags.Changed("url") {
			faults = append(faults, term.Usagef("--url is missing"))
		}
		for _, file := range []struct {
			name string
			text *string
		}{{f.bodyFile, &f.body}, {f.secretFile, &f.secret}} {
			text, err := readFile(file.name)
			*file.text, faults = text, append(faults, err)
		}
		for _, flag := range []string{"selector", "process-label"} {
			faults = append(faults, remote.CheckSelector(cmd, flag, flags.Lookup(flag).Value.String()))
		}
		return errors.Join(faults...)
	})
}

// receiverFields are the flags of the fields of a receiver.
func receiverFields() map[string]string {
	return map[string]string{
		"name": "NAME", "url": "--url", "kind": "--kind", "secret": "--secret-file", "namespaces": "--namespace",
		"select": "--selector", "labels": "--process-label", "severities": "--severity", "kinds": "--alarm",
		"mail": "--mail-to", "mail.from": "--mail-from", "mail.to": "--mail-to", "mail.user": "--mail-user",
		"subject": "--subject", "body": "--body-file", "note": "--note", `"local"`: "--local",
	}
}

// mailFlags are the flags about mails.
func mailFlags() []string {
	return []string{"mail-from", "mail-to", "mail-user"}
}

// givesMail reports whether a flag about mails is given.
func (f *receiverFlags) givesMail() bool { return slices.ContainsFunc(mailFlags(), f.given) }

// letter applies the flags about mails to settings.
func (f *receiverFlags) letter(m v1.Mail) *v1.Mail {
	for flag, set := range map[string]func(){
		"mail-from": func() { m.From = f.mail.From }, "mail-to": func() { m.To = f.mail.To },
		"mail-user": func() { m.User = f.mail.User },
	} {
		if f.given(flag) {
			set()
		}
	}
	return &m
}

// readFile reads a small file that a flag names; an empty name is an empty text.
func readFile(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	data, err := os.ReadFile(name) //nolint:gosec // the file of the person who runs the command
	if err != nil {
		return "", term.Usagef("cannot read %s: %v", name, err)
	}
	return string(data), nil
}

// change copies the given flags.
func (f *receiverFlags) change() v1.ReceiverChange {
	change := v1.ReceiverChange{
		Labels: given(f, "process-label", &f.labels), Severities: given(f, "severity", &f.severities),
		Kinds: given(f, "alarm", &f.kinds), URL: given(f, "url", &f.url),
		Namespaces: given(f, "namespace", &f.namespaces), Select: given(f, "selector", &f.selector),
		Local: given(f, "local", &f.local), Note: given(f, "note", &f.note), Subject: given(f, "subject", &f.subject),
	}
	if f.given("body-file") {
		change.Body = &f.body
	}
	return change
}

// given returns the value of a flag; nil if the flag is not given.
func given[T any](f *receiverFlags, flag string, value *T) *T {
	if !f.given(flag) {
		return nil
	}
	return value
}

func receiverCreate() remote.Verb[v1.Receiver] {
	var f receiverFlags
	return remote.Verb[v1.Receiver]{
		Use:   "create NAME --url URL",
		New:   true,
		Flags: f.flags,
		Request: func(args []string) (any, []string) {
			told := []string{"select", "labels"}
			if f.url == "" {
				told = append(told, "url")
			}
			if len(args) == 0 {
				args, told = []string{""}, append(told, "name")
			}
			return f.request(args[0]), told
		},
		Fields: receiverFields(),
		Call: func(ctx context.Context, c *client.Client, args []string) (v1.Receiver, error) {
			return c.CreateReceiver(ctx, f.request(args[0]))
		},
	}
}

// request returns the request for a new receiver.
func (f *receiverFlags) request(name string) v1.ReceiverChange {
	change := f.change()
	change.Name, change.Kind = name, f.kind
	if f.givesMail() || f.kind == v1.ReceiverEmail {
		change.Mail = f.letter(v1.Mail{})
	}
	if f.secretFile != "" {
		change.Secret = new(strings.TrimSpace(f.secret))
	}
	return change
}

func receiverChange() remote.Verb[v1.Receiver] {
	var f receiverFlags
	var all, everywhere bool
	return remote.Verb[v1.Receiver]{
		Use: "change NAME",
		Flags: func(cmd *cobra.Command) {
			f.flags(cmd)
			cmd.Flags().BoolVar(&all, "all-namespaces", false, "deliver the alarms of all namespaces")
			cmd.Flags().BoolVar(&everywhere, "all-hosts", false, "deliver the alarms of all hosts")
			cmd.PreRunE = term.Chain(cmd.PreRunE, func(*cobra.Command, []string) error {
				var faults []error
				if all && f.given("namespace") {
					faults = append(faults, term.Usagef("--namespace and --all-namespaces exclude each other"))
				}
				if everywhere && f.given("selector") {
					faults = append(faults, term.Usagef("--selector and --all-hosts exclude each other"))
				}
				return errors.Join(faults...)
			})
		},
		Fields: receiverFields(),
		Call: func(ctx context.Context, c *client.Client, args []string) (v1.Receiver, error) {
			change := f.change()
			if all {
				change.Namespaces = &[]string{}
			}
			if everywhere {
				change.Select = new("")
			}
			if f.givesMail() {
				present, err := c.Receiver(ctx, args[0])
				if err != nil {
					return v1.Receiver{}, err
				}
				if present.Mail == nil {
					present.Mail = &v1.Mail{}
				}
				change.Mail = f.letter(*present.Mail)
			}
			if change == (v1.ReceiverChange{}) {
				return v1.Receiver{}, term.Usagef(
					"nothing to change: 'drover receiver change --help' lists the flags")
			}
			return c.ChangeReceiver(ctx, args[0], change)
		},
	}
}

func newReceiverTest() *cobra.Command {
	var s remote.Session
	cmd := &cobra.Command{
		Use:  "test NAME",
		Args: term.Args,
		RunE: remote.Query(&s, func(ctx context.Context, c *client.Client, args []string) (v1.ReceiverTest, error) {
			return c.TestReceiver(ctx, args[0])
		}, func(cmd *cobra.Command, args []string, t v1.ReceiverTest) error {
			if s.Form != term.AsText {
				if err := term.PrintValue(cmd.OutOrStdout(), s.Form, t); err != nil {
					return err
				}
			} else if t.Delivered {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "delivered in %.3f s\n", t.Seconds)
				return err
			}
			if !t.Delivered {
				return &command.ExitError{Code: command.Failed, Err: fmt.Errorf("cannot deliver to %s: %s", args[0],
					term.Printable(t.Error))}
			}
			return nil
		}),
		ValidArgsFunction: receiverList().Names(&s),
	}
	s.Flags(cmd, term.AsText, term.AsJSON, term.AsYAML)
	return cmd
}
