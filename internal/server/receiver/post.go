package receiver

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"drover/internal/clip"

	"drover/internal/server/store"
)

// The headers of a delivery.
const (
	// HeaderSignature is "t=<Unix seconds>,v1=<hex>": HMAC-SHA256, under the secret, of the time, a dot and the body.
	HeaderSignature = "X-Drover-Signature"
	// HeaderDelivery has the name of the delivery: a retry has the same name and the same body.
	HeaderDelivery = "X-Drover-Delivery"
)

const (
	// answerTime bounds one attempt.
	answerTime = 10 * time.Second
	// maxHeader and maxAnswer bound how much of an answer is read, in bytes.
	maxHeader = 64 << 10
	maxAnswer = 4 << 10
)

// Sign returns the value of HeaderSignature.
func Sign(secret string, at time.Time, body []byte) string {
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(stamp + "."))
	mac.Write(body)
	return "t=" + stamp + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// client returns the HTTP client of deliveries: without redirects, without a proxy, and without forbidden addresses.
func client(local bool, roots *x509.CertPool) *http.Client {
	dialer := &net.Dialer{Timeout: answerTime}
	if !local {
		dialer.Control = control
	}
	return &http.Client{
		Timeout: answerTime,
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2: true, TLSHandshakeTimeout: answerTime,
			MaxIdleConns: 1, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: maxHeader, DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// httpTransport delivers to webhooks and alertmanagers.
type httpTransport struct {
	to     *store.Receiver
	client *http.Client
}

func (t *httpTransport) close() { t.client.CloseIdleConnections() }

// alertsPath is where an alertmanager takes alerts, below its address.
const alertsPath = "/api/v2/alerts"

// send makes one attempt.
func (t *httpTransport) send(ctx context.Context, m *message) error {
	address := t.to.URL
	if t.to.Kind == store.KindAlertmanager {
		address = strings.TrimSuffix(address, "/") + alertsPath
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(m.body))
	if err != nil {
		return fmt.Errorf("cannot make the request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "drover")
	if t.to.Kind == store.KindWebhook {
		req.Header.Set(HeaderDelivery, m.name)
		req.Header.Set(HeaderSignature, Sign(t.to.Secret, time.Now(), m.body))
	} else if t.to.Secret != "" {
		req.Header.Set("Authorization", "Bearer "+t.to.Secret)
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return plain(err)
	}
	defer resp.Body.Close()                                       //nolint:errcheck // only read
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // a receiver may close early
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return fmt.Errorf("answered %s: drover does not follow redirects", status(resp.StatusCode))
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return fmt.Errorf("answered %s", status(resp.StatusCode))
	case t.to.Body != "":
		return refusal(answer)
	}
	return nil
}

// refusal is the error in the answer of a chat that refuses a message with the status 200: WeCom and DingTalk have an
// errcode, Lark has a code, and 0 is success. A code may also be a status of HTTP, such as 200. Every other answer is
// no error.
func refusal(answer []byte) error {
	var codes struct {
		ErrCode int64 `json:"errcode"`
		Code    int64 `json:"code"`
	}
	if json.Unmarshal(answer, &codes) != nil {
		return nil
	}
	if codes.ErrCode != 0 {
		return fmt.Errorf("answered 200 OK with errcode %d", codes.ErrCode)
	}
	if codes.Code != 0 && (codes.Code < 200 || codes.Code > 299) {
		return fmt.Errorf("answered 200 OK with code %d", codes.Code)
	}
	return nil
}

// status returns drover's own words for a status, because the receiver's words may have any length.
func status(code int) string {
	return strings.TrimSpace(strconv.Itoa(code) + " " + http.StatusText(code))
}

// maxProblem is the stored length of an error, in bytes, because it may quote the answer.
const maxProblem = 300

// plain removes the URL from an error, because its query may hold a token, and shortens the error for display.
func plain(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		if wrapped.Timeout() {
			return fmt.Errorf("gave no answer within %s", answerTime)
		}
		err = wrapped.Err
	}
	if text := err.Error(); len(text) > maxProblem {
		return errors.New(clip.Marked(text, maxProblem, " …"))
	}
	return err
}
