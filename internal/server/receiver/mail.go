package receiver

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"strconv"
	"strings"
	"text/template"
	"time"
	"unicode"

	gomail "github.com/wneessen/go-mail"

	"drover/internal/process"
	"drover/internal/server/alarm"
	"drover/internal/server/store"
)

// Letter is what the templates of a mail see.
type Letter struct {
	// Count is the number of alarms, and Alarms are the entries that stand for them.
	Count  int
	Alarms []Entry
}

// Entry is one entry of a letter.
type Entry struct {
	Kind, Severity string
	// Process and Host are empty in an entry of many processes.
	Namespace, Process, Host string
	At                       time.Time
	// Text is for people; Cause is the id of the cause, if it is known.
	Text, Cause string
	// Count is how many alarms the entry stands for.
	Count int
}

// The default templates.
const (
	defaultSubject = `{{with index .Alarms 0}}[drover {{.Severity}}] {{.Namespace}}/{{.Process}} {{.Kind}}{{end}}` +
		`{{if gt (len .Alarms) 1}} and {{len (slice .Alarms 1)}} more{{end}}`
	defaultBody = `{{range .Alarms}}{{.At.Format "2006-01-02T15:04:05Z07:00"}} {{.Severity}} {{.Kind}} ` +
		`{{.Namespace}}/{{.Process}}{{with .Host}} on {{.}}{{end}}{{if gt .Count 1}} ({{.Count}} times){{end}}
  {{.Text}}{{with .Cause}} [{{.}}]{{end}}
{{end}}`
)

// The limits of templates and of what they make, in bytes.
const (
	maxTemplate = 10_000
	maxSubject  = 200
	maxBody     = 256 << 10
)

// CheckTemplate returns an error if a template of a mail cannot be used.
func CheckTemplate(text string) error {
	if len(text) > maxTemplate {
		return fmt.Errorf("is %d bytes long: expected at most %d", len(text), maxTemplate)
	}
	_, err := fill(text, Letter{Count: 2, Alarms: []Entry{
		{
			Kind: string(process.EventGivenUp), Severity: "critical", Namespace: "shop", Process: "cart",
			Host: "10.0.0.1", At: time.Unix(0, 0).UTC(), Text: "text", Cause: "exited", Count: 1,
		},
		{Kind: string(process.EventFlapping), Severity: "warning", Namespace: "shop", Count: 1},
	}}, maxBody)
	return err
}

// bounded is a buffer that takes a limited number of bytes.
type bounded struct {
	bytes.Buffer
	left int
}

var errTooLong = errors.New("the text is too long")

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errTooLong
	}
	return b.Buffer.Write(p)
}

// fill executes a template. The result has no control characters except line breaks and tabs.
func fill(text string, letter Letter, most int) (string, error) {
	t, err := template.New("template").Option("missingkey=error").Parse(text)
	if err != nil {
		return "", fmt.Errorf("is not a template: %w", err)
	}
	if err := checkNodes(t); err != nil {
		return "", err
	}
	out := &bounded{left: most}
	if err := t.Execute(out, letter); err != nil {
		return "", fmt.Errorf("cannot fill the template: %w", err)
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(out.String(), "?")), nil
}

// composeMail makes the letter of folded alarms.
func composeMail(m *store.Mail, alarms []alarm.Alarm) (*message, error) {
	letter := Letter{}
	for i := range alarms {
		a := &alarms[i]
		n := max(a.Count, 1)
		letter.Count += n
		host, _, _ := strings.Cut(a.Target, "|")
		letter.Alarms = append(letter.Alarms, Entry{
			Kind: string(a.Kind), Severity: string(alarm.SeverityOf(a.Kind)), Namespace: a.Dimension.Group,
			Process: a.Dimension.Name, Host: host, At: time.UnixMilli(a.Timestamp).UTC(), Text: a.Event.Content,
			Cause: string(a.Event.Cause), Count: n,
		})
	}
	subject, err := fill(orDefault(m.Subject, defaultSubject), letter, maxBody)
	if err != nil { // the sample of CheckTemplate differs from these alarms
		subject, _ = fill(defaultSubject, letter, maxBody)
	}
	body, err := fill(orDefault(m.Body, defaultBody), letter, maxBody)
	if err != nil {
		rest, failed := fill(defaultBody, letter, 2*maxBody)
		if failed != nil {
			return nil, failed
		}
		body = "drover used its own text, because the template of this receiver failed: " + err.Error() + "\n\n" + rest
	}
	subject = strings.Join(strings.Fields(subject), " ")
	if len(subject) > maxSubject {
		subject = strings.ToValidUTF8(subject[:maxSubject], "")
	}
	return &message{subject: subject, body: []byte(body)}, nil
}

func orDefault(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// The schemes of mail servers: TLS begins with STARTTLS, or with the connection.
const (
	schemeStartTLS = "smtp"
	schemeTLS      = "smtps"
)

// mailTransport delivers to a mail server, over a new connection for each message.
type mailTransport struct {
	to    *store.Receiver
	roots *x509.CertPool
}

func (t *mailTransport) close() {}

// send makes one attempt. The mail server must prove its name by its certificate.
func (t *mailTransport) send(ctx context.Context, m *message) error {
	c, err := t.client()
	if err != nil {
		return err
	}
	letter := gomail.NewMsg()
	err = letter.From(t.to.Mail.From)
	if err == nil {
		err = letter.To(t.to.Mail.To...)
	}
	if err != nil {
		return fmt.Errorf("cannot address the mail: %w", err)
	}
	letter.Subject(m.subject)
	letter.SetDate()
	letter.SetBulk()
	_, domain, _ := strings.Cut(t.to.Mail.From, "@")
	made := t.to.Created.UTC().Format("20060102150405")
	letter.SetMessageIDWithValue(m.name + "." + made + "@" + strings.Trim(domain, "> "))
	letter.SetGenHeader(gomail.Header(HeaderDelivery), m.name)
	letter.SetBodyString(gomail.TypeTextPlain, string(m.body))
	ctx, cancel := context.WithTimeout(ctx, 3*answerTime)
	defer cancel()
	if err := c.DialAndSendWithContext(ctx, letter); err != nil {
		return plain(err)
	}
	return nil
}

func (t *mailTransport) client() (*gomail.Client, error) {
	u, err := url.Parse(t.to.URL)
	if err != nil {
		return nil, errors.New("the address is not a URL")
	}
	dialer := &net.Dialer{Timeout: answerTime}
	if !t.to.Local {
		dialer.Control = control
	}
	options := []gomail.Option{
		gomail.WithTimeout(answerTime), gomail.WithTLSPolicy(gomail.TLSMandatory),
		gomail.WithTLSConfig(&tls.Config{ServerName: u.Hostname(), RootCAs: t.roots, MinVersion: tls.VersionTLS12}),
		gomail.WithPort(mailPort(u)),
	}
	dial := dialer.DialContext
	if u.Scheme == schemeTLS {
		options = append(options, gomail.WithSSL())
		dial = (&tls.Dialer{NetDialer: dialer, Config: &tls.Config{
			ServerName: u.Hostname(), RootCAs: t.roots, MinVersion: tls.VersionTLS12,
		}}).DialContext
	}
	options = append(options, gomail.WithDialContextFunc(dial))
	if t.to.Mail.User != "" {
		auth := gomail.SMTPAuthAutoDiscover
		if u.Scheme == schemeTLS { // the library does not see that the connection is encrypted
			auth = gomail.SMTPAuthPlain
		}
		options = append(options, gomail.WithSMTPAuth(auth),
			gomail.WithUsername(t.to.Mail.User), gomail.WithPassword(t.to.Secret))
	}
	c, err := gomail.NewClient(u.Hostname(), options...)
	if err != nil {
		return nil, fmt.Errorf("cannot use the mail server: %w", err)
	}
	return c, nil
}

// mailPort returns the port of a mail server: 587 with STARTTLS, 465 with TLS from the beginning.
func mailPort(u *url.URL) int {
	if port, err := strconv.Atoi(u.Port()); err == nil {
		return port
	}
	if u.Scheme == schemeTLS {
		return gomail.DefaultPortSSL
	}
	return gomail.DefaultPortTLS
}

// maxRecipients is the largest number of recipients of a mail.
const maxRecipients = 50

// CheckMail calls fault for each wrong field of the settings of a mail, with the reason.
func CheckMail(m *store.Mail, fault func(field string, err error)) {
	if _, err := mail.ParseAddress(m.From); err != nil {
		fault("mail.from", fmt.Errorf("is %.80q: expected an address such as drover@shop.example", m.From))
	}
	n := len(m.To)
	if n == 0 || n > maxRecipients {
		fault("mail.to", fmt.Errorf("has %d addresses: expected 1 to %d", n, maxRecipients))
	}
	for i, to := range m.To[:min(n, maxRecipients)] {
		if _, err := mail.ParseAddress(to); err != nil {
			fault(fmt.Sprintf("mail.to[%d]", i), fmt.Errorf("is %.80q: expected an address such as ops@shop.example", to))
		}
	}
	if err := CheckTemplate(m.Subject); err != nil {
		fault("mail.subject", err)
	}
	if err := CheckTemplate(m.Body); err != nil {
		fault("mail.body", err)
	}
}
