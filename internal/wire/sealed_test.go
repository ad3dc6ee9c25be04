package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/nats-io/nkeys"

	"drover/internal/wire"
)

// told is a report that tells something.
func told() []byte {
	return []byte(`{"version":1,"session":"s","number":7,"progress":[{"item":"1","limit":20}]}`)
}

func must(t *testing.T) func(data []byte, err error) []byte {
	t.Helper()
	return func(data []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
}

// TestTells: what a server keeps counts, and nothing else.
func TestTells(t *testing.T) {
	for _, r := range []wire.Report{
		{Hello: &wire.Hello{}},
		{Progress: []wire.Progress{{}}},
		{Observed: []wire.Observation{{}}},
		{Proof: "p"},
		{Open: []string{"o"}},
		{Load: &wire.Load{}},
	} {
		if data, err := json.Marshal(r); err != nil || !wire.HasContent(data) {
			t.Errorf("%s tells nothing (%v)", data, err)
		}
	}
	for _, text := range []string{"", "[]", "{", "\x02", "{}\n", `{"version":"1"` + string(bytes.Repeat([]byte(" "), 5<<10)) +
		"}", `{"hello":null}`} {
		if !wire.HasContent([]byte(text)) {
			t.Errorf("%.20q tells nothing", text)
		}
	}
	heartbeat, err := json.Marshal(wire.Report{
		Version: 1, Session: "s", Number: 3, At: 5,
		Trust: &wire.TrustHeld{Generation: 2}, Place: "here",
	})
	if err != nil || wire.HasContent(heartbeat) {
		t.Errorf("%s tells something (%v)", heartbeat, err)
	}
}

func TestSealedReport(t *testing.T) {
	own, agent := key(t, "a")
	other, another := key(t, "b")
	data := must(t)(wire.SealReport(told(), "fleet", own))
	if got, signed, err := wire.OpenReport(data, "fleet", agent); err != nil || !signed || !bytes.Equal(got, told()) {
		t.Errorf("%s, %v, %v", got, signed, err)
	}
	heartbeat := []byte(`{"version":1}`)
	if got, signed, err := wire.OpenReport(heartbeat, "fleet", agent); err != nil || signed ||
		!bytes.Equal(got, heartbeat) {
		t.Errorf("a heartbeat: %s, %v, %v", got, signed, err)
	}
	altered := bytes.Replace(data, []byte(`"limit":20`), []byte(`"limit":90`), 1)
	for name, c := range map[string]struct {
		data  []byte
		agent string
		want  error
	}{
		"not signed":              {told(), agent, wire.ErrUnsigned},
		"of another agent":        {data, another, wire.ErrUnknownKey},
		"signed by another agent": {must(t)(wire.SealReport(told(), "fleet", other)), agent, wire.ErrUnknownKey},
		"to another fleet":        {must(t)(wire.SealReport(told(), "other", own)), agent, wire.ErrForged},
		"altered":                 {altered, agent, wire.ErrForged},
		"a receipt":               {must(t)(wire.SealReceipt(told(), nil, own)), agent, wire.ErrForged},
		"an answer":               {must(t)(wire.SealAnswer(told(), nil, agent, own)), agent, wire.ErrForged},
	} {
		if got, signed, err := wire.OpenReport(c.data, "fleet", c.agent); !errors.Is(err, c.want) || got != nil ||
			signed {
			t.Errorf("%s: %s, %v, %v, want %v", name, got, signed, err, c.want)
		}
	}
	for n := range 2 + 56 + 64 {
		if _, _, err := wire.OpenReport(data[:n], "fleet", agent); err == nil {
			t.Errorf("its first %d bytes are taken", n)
		}
	}
}

// TestSealedAnswer: it answers the one report that it was made for, and any of the server's keys will do.
func TestSealedAnswer(t *testing.T) {
	present, presentKey := key(t, "p")
	former, formerKey := key(t, "f")
	_, strangerKey := key(t, "z")
	answer := []byte(`{"version":1,"trust":"e30="}`)
	data := must(t)(wire.SealAnswer(answer, told(), "agent", present, former))
	for name, c := range map[string]struct {
		report, agent string
		pinned        []string
		want          error
	}{
		"present key":    {string(told()), "agent", []string{strangerKey, presentKey}, nil},
		"former key":     {string(told()), "agent", []string{formerKey}, nil},
		"another key":    {string(told()), "agent", []string{strangerKey}, wire.ErrUnknownKey},
		"another report": {string(told()) + " ", "agent", []string{presentKey}, wire.ErrForged},
		"another agent":  {string(told()), "other", []string{presentKey}, wire.ErrForged},
	} {
		got, err := wire.OpenAnswer(data, []byte(c.report), c.agent, c.pinned)
		if !errors.Is(err, c.want) || err == nil && !bytes.Equal(got, answer) {
			t.Errorf("%s: %s, %v, want %v", name, got, err, c.want)
		}
	}
	if _, err := wire.OpenAnswer(answer, told(), "agent", []string{presentKey}); !errors.Is(err, wire.ErrUnsigned) {
		t.Errorf("one that is not signed: %v", err)
	}
	if got := wire.SealedTrust(data); string(got) != "{}" {
		t.Errorf("it brings %q", got)
	}
	for _, text := range []string{"", `{"trust":"e30="}`, "\x01\x01"} {
		if got := wire.SealedTrust([]byte(text)); got != nil {
			t.Errorf("%q brings %q", text, got)
		}
	}
}

// TestSealedReceipt: it is for the one envelope that it was made for.
func TestSealedReceipt(t *testing.T) {
	own, agent := key(t, "a")
	receipt, envelope := []byte(`{"version":1,"error":"full"}`), []byte("the orders")
	data := must(t)(wire.SealReceipt(receipt, envelope, own))
	if got, err := wire.OpenReceipt(data, envelope, agent); err != nil || !bytes.Equal(got, receipt) {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := wire.OpenReceipt(data, []byte("other orders"), agent); !errors.Is(err, wire.ErrForged) {
		t.Errorf("for other orders: %v", err)
	}
	if _, err := wire.OpenReceipt(receipt, envelope, agent); !errors.Is(err, wire.ErrUnsigned) {
		t.Errorf("not signed: %v", err)
	}
}

// TestRecordedSeals: how messages are signed does not change.
func TestRecordedSeals(t *testing.T) {
	agent, server := theirs(t, nkeys.PrefixByteUser, "agent"), theirs(t, nkeys.PrefixByteAccount, "server")
	report, signed, err := wire.OpenReport(recordedSigned(t, "report"), "fleet", agent)
	if err != nil || !signed || !bytes.Equal(report, recorded(t, "report")) {
		t.Errorf("the report is %s, %v", report, err)
	}
	if answer, err := wire.OpenAnswer(recordedSigned(t, "answer"), report, agent, []string{server}); err != nil ||
		!bytes.Equal(answer, recorded(t, "answer")) {
		t.Errorf("the answer is %s, %v", answer, err)
	}
	if receipt, err := wire.OpenReceipt(recordedSigned(t, "receipt"), recordedSigned(t, "orders"), agent); err != nil ||
		!bytes.Equal(receipt, recorded(t, "receipt")) {
		t.Errorf("the receipt is %s, %v", receipt, err)
	}
}

func FuzzOpenReport(f *testing.F) {
	f.Add([]byte(`{"version":1}`))
	f.Add(append([]byte{1, 1}, bytes.Repeat([]byte("A"), 200)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		report, signed, err := wire.OpenReport(data, "fleet",
			"UAIPQ4M6PVQBFIQQ2MUXM2DDKSOPIJXKYJ6ZN5IQ6FXVPZ3LTAVFFTGC")
		if signed || err == nil && wire.HasContent(report) {
			t.Errorf("%q is taken as %q", data, report)
		}
	})
}
