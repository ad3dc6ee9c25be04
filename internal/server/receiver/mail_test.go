package receiver_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/receiver"
	"drover/internal/server/store"
)

// postOffice is an SMTP server (RFC 5321) with STARTTLS and AUTH PLAIN, which takes mails of one user over TLS only.
type postOffice struct {
	net.Listener
	t       *testing.T
	tls     *tls.Config
	roots   *x509.CertPool
	implied bool // TLS from the beginning
	got     chan letter
}

// letter is a mail as the post office got it.
type letter struct {
	to           []string
	header, text string
}

func openPostOffice(t *testing.T, host string, implied bool) *postOffice {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), DNSNames: []string{host}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	p := &postOffice{t: t, implied: implied, roots: x509.NewCertPool(), got: make(chan letter, 10)}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	p.roots.AddCert(cert)
	p.tls = &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12,
	}
	if p.Listener, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	go func() {
		for {
			c, err := p.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	return p
}

// address is the address for receivers.
func (p *postOffice) address() string {
	scheme := "smtp"
	if p.implied {
		scheme = "smtps"
	}
	_, port, _ := net.SplitHostPort(p.Addr().String())
	return scheme + "://localhost:" + port
}

func (p *postOffice) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	secure, proven := p.implied, false
	if p.implied {
		c = tls.Server(c, p.tls)
	}
	r := textproto.NewReader(bufio.NewReader(c))
	say := func(line string) { _, _ = fmt.Fprint(c, line+"\r\n") }
	say("220 localhost")
	var mail letter
	for {
		line, err := r.ReadLine()
		if err != nil {
			return
		}
		switch verb, _, _ := strings.Cut(strings.ToUpper(line), " "); {
		case verb == "EHLO" && secure:
			say("250-localhost\r\n250 AUTH PLAIN")
		case verb == "EHLO":
			say("250-localhost\r\n250 STARTTLS")
		case verb == "STARTTLS":
			say("220 go")
			c, secure = tls.Server(c, p.tls), true
			r = textproto.NewReader(bufio.NewReader(c))
		case verb == "AUTH":
			word := base64.StdEncoding.EncodeToString([]byte("\x00drover\x00pass word"))
			if proven = secure && line == "AUTH PLAIN "+word; proven {
				say("235 well")
			} else {
				say("535 no")
			}
		case !proven:
			say("530 authenticate first")
		case verb == "MAIL", verb == "NOOP", verb == "RSET":
			say("250 well")
		case verb == "RCPT":
			mail.to = append(mail.to, line)
			say("250 well")
		case verb == "DATA":
			say("354 go on")
			text, _ := r.ReadDotBytes()
			mail.header, mail.text, _ = strings.Cut(string(text), "\n\n")
			p.got <- mail
			mail = letter{}
			say("250 taken")
		case verb == "QUIT":
			say("221 bye")
			return
		default:
			say("502 what?")
		}
	}
}

// mailing is a receiver at the post office.
func (p *postOffice) mailing() store.Receiver {
	return store.Receiver{
		Name: "ops", Kind: store.KindEmail, URL: p.address(), Secret: "pass word", Local: true, Created: time.Unix(0, 0),
		Mail: store.Mail{From: "drover@shop.example", To: []string{"a@x.example", "b@x.example"}, User: "drover"},
	}
}

func TestMail(t *testing.T) {
	for _, implied := range []bool{false, true} {
		p := openPostOffice(t, "localhost", implied)
		d := newDisk(p.mailing())
		d.happen(2)
		d.events[1].Event.Kind = process.EventGivenUp
		d.events[1].Event.Cause = process.Cause{ID: process.CauseExited, Text: "over\x1b[31m\r\nSubject: forged"}
		s := receiver.New(receiver.Config{
			Store: d, Hosts: d, Now: time.Now, Log: slog.New(slog.DiscardHandler), Roots: p.roots,
		})
		end := begin(t, s)
		got := <-p.got
		end()
		for _, want := range []string{
			"Subject: [drover notice] ns/p1 relaunched and 1 more", "From: <drover@shop.example>",
			"Message-ID: <ops-2.19700101000000@shop.example>",
		} {
			if !strings.Contains(got.header, want) {
				t.Errorf("%s is not in the header:\n%s", want, got.header)
			}
		}
		if len(got.to) != 2 || !strings.Contains(got.text, "critical given-up ns/p2 on 10.0.0.1") ||
			!strings.Contains(got.text, "[exited]") || strings.ContainsAny(got.text, "\x1b\r") {
			t.Errorf("to %q:\n%q", got.to, got.text)
		}
	}
}

// TestMailNeedsProof: drover gives no password and no mail to a server that does not prove its name.
func TestMailNeedsProof(t *testing.T) {
	p := openPostOffice(t, "other.example", false)
	s := receiver.New(receiver.Config{Now: time.Now, Roots: p.roots})
	if err := s.Test(t.Context(), p.mailing()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("%v: want an error of the certificate", err)
	}
	wrong := openPostOffice(t, "localhost", false)
	s = receiver.New(receiver.Config{Now: time.Now, Roots: wrong.roots})
	to := wrong.mailing()
	to.Secret = "guess"
	if err := s.Test(t.Context(), to); err == nil || strings.Contains(err.Error(), "guess") {
		t.Errorf("%v: want a refusal without the password", err)
	}
	if err := s.Test(t.Context(), wrong.mailing()); err != nil {
		t.Errorf("the right password: %v", err)
	}
}
