package receiver

import (
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

	gomail "github.com/wneessen/go-mail"

	"drover/internal/clip"
	"drover/internal/server/alarm"
	"drover/internal/server/store"
)

// composeMail makes the letter of folded alarms.
func composeMail(to *store.Receiver, alarms []alarm.Alarm) (*message, error) {
	letter, err := letterOf(alarms)
	if err != nil {
		return nil, err
	}
	subject, err := fill(orDefault(to.Subject, defaultSubject), letter, maxBody)
	if err != nil { // the sample of CheckTemplate differs from these alarms
		subject = letter.Subject
	}
	body, err := fill(orDefault(to.Body, defaultBody), letter, maxBody)
	if err != nil {
		body = "drover used its own text, because the template of this receiver failed: " + err.Error() + "\n\n" +
			letter.Text
	}
	subject = strings.Join(strings.Fields(subject), " ")
	return &message{subject: clip.Head(subject, maxSubject), body: []byte(body)}, nil
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
}
