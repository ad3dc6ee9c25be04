package receiver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/alarm"
	"drover/internal/server/receiver"
	"drover/internal/server/store"
)

// disk is a store in memory.
type disk struct {
	mu         sync.Mutex
	hooks      []store.Receiver
	deliveries map[string]store.Delivery
	events     []store.StoredEvent
	silences   []store.Silence
	withheld   map[store.AlarmKey]store.StoredEvent
	counts     map[string]int64
	observed   map[store.ObservedKey]store.Observed
	noted      chan store.Delivery
	// reads counts the reads of observed.
	reads int
}

func newDisk(hooks ...store.Receiver) *disk {
	return &disk{
		hooks: hooks, deliveries: map[string]store.Delivery{}, noted: make(chan store.Delivery, 1000),
		withheld: map[store.AlarmKey]store.StoredEvent{}, counts: map[string]int64{},
		observed: map[store.ObservedKey]store.Observed{},
	}
}

func (d *disk) ListReceivers(context.Context) ([]store.Subscription, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []store.Subscription
	for _, h := range d.hooks {
		list = append(list, store.Subscription{Receiver: h, Delivery: d.deliveries[h.Name]})
	}
	return list, nil
}

func (d *disk) PutDelivery(_ context.Context, name string, _ time.Time, delivery store.Delivery,
	changes store.Withheld,
) error {
	d.mu.Lock()
	d.deliveries[name] = delivery
	for _, key := range changes.Dropped {
		delete(d.withheld, key)
	}
	for i := range changes.Added {
		d.withheld[changes.Added[i].Key()] = changes.Added[i]
	}
	for id, n := range changes.Counts {
		d.counts[id] += n
	}
	d.mu.Unlock()
	d.noted <- delivery
	return nil
}

func (d *disk) ListWithheld(context.Context, string) ([]store.StoredEvent, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Values(d.withheld)), nil
}

func (d *disk) ListSilences(_ context.Context, after time.Time) (list []store.Silence, _ error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.silences {
		if s.End().After(after) {
			list = append(list, s)
		}
	}
	return list, nil
}

func (d *disk) GetObserved(_ context.Context, id process.ID, agents []string, fn func(store.Observed) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reads++
	for _, agent := range agents {
		if o, known := d.observed[store.ObservedKey{Agent: agent, Process: id}]; known {
			if err := fn(o); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *disk) EventsAfter(_ context.Context, after int64, _ store.EventFilter,
	limit int,
) (events []store.StoredEvent, next int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	next = after
	for _, e := range d.events {
		if e.Cursor > after && len(events) < limit {
			events, next = append(events, e), e.Cursor
		}
	}
	return events, next, nil
}

// happen adds events that are alarms, pass events that are none.
func (d *disk) happen(n int) { d.add(n, process.EventRelaunched) }

func (d *disk) pass(n int) { d.add(n, process.EventStarted) }

func (d *disk) add(n int, kind process.EventKind) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for range n {
		cursor := int64(len(d.events) + 1)
		d.events = append(d.events, store.StoredEvent{Cursor: cursor, Agent: "A", Event: process.Event{
			Kind: kind, Process: process.ID{Namespace: "ns", Name: fmt.Sprint("p", cursor)}, At: cursor,
		}})
	}
}

func (d *disk) ListFormer(context.Context, int) ([]store.FormerAgent, error) {
	return []store.FormerAgent{{Agent: store.Agent{Key: "removed", Cloud: 2, IP: "10.0.0.9"}}}, nil
}

func (d *disk) ByKey(key string) (store.Agent, bool) {
	labels := map[string]string{"role": "web"}
	if key == "B" {
		labels["role"] = "db"
	}
	return store.Agent{Key: key, Cloud: 1, IP: "10.0.0.1", Labels: labels}, key == "A" || key == "B"
}

// target is an HTTP server that remembers what it was told.
type target struct {
	*httptest.Server
	got chan delivered
}

type delivered struct {
	name, signature string
	body            []byte
	message         alarm.Message
}

func receive(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *target {
	t.Helper()
	r := &target{got: make(chan delivered, 1000)}
	n := 0
	var mu sync.Mutex
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		n++
		count := n
		mu.Unlock()
		d := delivered{name: req.Header.Get(receiver.HeaderDelivery), signature: req.Header.Get(receiver.HeaderSignature)}
		d.body, _ = io.ReadAll(req.Body)
		if err := json.Unmarshal(d.body, &d.message); err != nil {
			t.Errorf("body %q: %v", d.body, err)
		}
		r.got <- d
		answer(count, w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

func ok(int, http.ResponseWriter, *http.Request) {}

func sender(d *disk) *receiver.Sender {
	return receiver.New(receiver.Config{
		Store: d, Hosts: d, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Pace: time.Millisecond,
	})
}

// run runs a sender until the end of the test.
func run(t *testing.T, d *disk) *receiver.Sender {
	t.Helper()
	s := sender(d)
	t.Cleanup(begin(t, s))
	return s
}

// begin runs a sender until the returned function is called.
func begin(t *testing.T, s *receiver.Sender) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestSendersTakeTurns: of two senders that run one after the other, each goes on where the other one has ended, and
// knows that.
func TestSendersTakeTurns(t *testing.T) {
	r := receive(t, ok)
	d := newDisk(store.Receiver{Name: "ops", Kind: store.KindWebhook, URL: r.URL, Local: true})
	first, second := sender(d), sender(d)
	for i, s := range []*receiver.Sender{first, second, first, second} {
		d.happen(1)
		end := begin(t, s)
		if got, want := <-r.got, fmt.Sprint("ops-", i+1); got.name != want || len(got.message.Data) != 1 {
			t.Errorf("turn %d: %q with %d alarms, want %q with one", i, got.name, len(got.message.Data), want)
		}
		<-d.noted
		end()
		for _, s := range []*receiver.Sender{first, second} {
			list, err := d.ListReceivers(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Latest(list[0]).Cursor; got != int64(i+1) {
				t.Errorf("turn %d: a sender knows of event %d as the last one", i, got)
			}
		}
	}
}

func TestAlarmsAreSignedAndDelivered(t *testing.T) {
	r := receive(t, ok)
	d := newDisk(store.Receiver{Name: "ops", Kind: store.KindWebhook, URL: r.URL, Secret: "s3cret", Local: true})
	d.happen(1)
	s := run(t, d)
	got := <-r.got
	var stamp int64
	if _, err := fmt.Sscanf(got.signature, "t=%d,", &stamp); err != nil {
		t.Fatalf("signature %q: %v", got.signature, err)
	}
	if want := receiver.Sign("s3cret", time.Unix(stamp, 0), got.body); got.signature != want {
		t.Errorf("signature %q, want %q", got.signature, want)
	}
	if len(got.message.Data) != 1 || got.message.Data[0].Target != "10.0.0.1|1" {
		t.Errorf("%+v: want one alarm of the host", got.message)
	}
	if n := <-d.noted; n.Cursor != 1 || n.Failures != 0 || n.Delivered.IsZero() {
		t.Errorf("noted %+v: want the event as delivered", n)
	}
	d.happen(1)
	s.News()
	if got := <-r.got; got.name != "ops-2" || got.message.Data[0].Dimension.Name != "p2" {
		t.Errorf("%q, %+v: want the second event alone", got.name, got.message)
	}
}

// TestAlarmsOfSelectedHosts: a receiver with an expression gets the alarms of the hosts that match, and of no host that
// is gone.
func TestAlarmsOfSelectedHosts(t *testing.T) {
	r := receive(t, ok)
	d := newDisk(store.Receiver{Name: "ops", Kind: store.KindWebhook, URL: r.URL, Local: true, Match: store.Match{Selector: "role!=db"}})
	d.happen(4)
	d.events[1].Agent, d.events[3].Agent = "B", "gone"
	s := sender(d)
	list, err := d.ListReceivers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.Due(t.Context(), list[0]); n != 2 || err != nil {
		t.Errorf("%d alarms are due, %v", n, err)
	}
	t.Cleanup(begin(t, s))
	got := <-r.got
	var names []string
	for _, a := range got.message.Data {
		names = append(names, a.Dimension.Name)
	}
	if fmt.Sprint(names) != "[p1 p3]" {
		t.Errorf("delivered are %q", names)
	}
	if n := <-d.noted; n.Cursor != 4 {
		t.Errorf("noted %+v: want all events as handled", n)
	}
}

// TestAlertsOfARemovedHost: the removal of a host ends its alerts in Alertmanager under the name that they had, also for
// a receiver of some hosts only.
func TestAlertsOfARemovedHost(t *testing.T) {
	got := make(chan []alarm.Alert, 10)
	am := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		var list []alarm.Alert
		if err := json.NewDecoder(req.Body).Decode(&list); err != nil {
			t.Error(err)
		}
		got <- list
	}))
	t.Cleanup(am.Close)
	d := newDisk(store.Receiver{
		Name: "am", Kind: store.KindAlertmanager, URL: am.URL, Local: true, Match: store.Match{Selector: "kernel=6"},
	})
	d.add(2, process.EventHostRemoved)
	d.events[0].Event.Process = process.ID{}
	d.events[0].Agent, d.events[1].Agent = "removed", "removed"
	run(t, d)
	ended := map[string]string{}
	for _, a := range <-got {
		if a.EndsAt.After(a.StartsAt) || a.Labels["host"] != "10.0.0.9" || a.Labels["area"] != "2" {
			t.Errorf("%+v: want an end on the host", a)
		}
		ended[a.Labels["alertname"]] += a.Labels["process"] + "."
	}
	if ended["drover-host-away"] != "." || ended["drover-given-up"] != "p2." || ended["drover-config-drifted"] != "p2." {
		t.Errorf("the ends are %q", ended)
	}
}

func TestAFailedDeliveryIsMadeAgainUnderTheSameName(t *testing.T) {
	r := receive(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	d := newDisk(store.Receiver{Name: "ops", Kind: store.KindWebhook, URL: r.URL, Local: true})
	d.happen(3)
	run(t, d)
	first := <-r.got
	if n := <-d.noted; n.Failures != 1 || n.Cursor != 0 || n.Failing.IsZero() || !strings.Contains(n.Error, "502") {
		t.Errorf("noted %+v: want one failure", n)
	}
	if second := <-r.got; second.name != first.name || string(second.body) != string(first.body) {
		t.Errorf("%q %s, then %q %s: want the same", first.name, first.body, second.name, second.body)
	}
	if n := <-d.noted; n.Failures != 0 || n.Error != "" || n.Cursor != 3 {
		t.Errorf("noted %+v: want all delivered and no failure", n)
	}
}

func TestAReceiverThatHangsDelaysNoOther(t *testing.T) {
	release := make(chan struct{})
	hanging := receive(t, func(int, http.ResponseWriter, *http.Request) { <-release })
	t.Cleanup(func() { close(release) })
	quick := receive(t, ok)
	d := newDisk(store.Receiver{Name: "hangs", Kind: store.KindWebhook, URL: hanging.URL, Local: true},
		store.Receiver{Name: "quick", Kind: store.KindWebhook, URL: quick.URL, Local: true})
	d.happen(1)
	s := run(t, d)
	<-hanging.got
	<-quick.got
	d.happen(1)
	s.News()
	if got := <-quick.got; got.message.Data[0].Dimension.Name != "p2" {
		t.Errorf("%+v: want the second event", got.message)
	}
}

func TestADeletedReceiverIsLeftAloneAndAChangedOneGoesOn(t *testing.T) {
	old, changed := receive(t, ok), receive(t, ok)
	d := newDisk(store.Receiver{Name: "ops", Kind: store.KindWebhook, URL: old.URL, Local: true})
	d.happen(1)
	s := run(t, d)
	<-old.got
	<-d.noted
	d.mu.Lock()
	d.hooks[0].URL = changed.URL
	d.mu.Unlock()
	s.Changed()
	d.happen(1)
	s.News()
	// The old worker may have taken the news before it heard of the change: then the new one begins after it.
	select {
	case <-old.got:
		d.happen(1)
		s.News()
	case got := <-changed.got:
		if got.message.Data[0].Dimension.Name != "p2" {
			t.Errorf("%+v: want only what is new", got.message)
		}
		return
	}
	if got := <-changed.got; got.message.Data[0].Dimension.Name == "p1" {
		t.Errorf("%+v: want only what is new", got.message)
	}
}

func TestOnlyAllowedAddressesAreDialled(t *testing.T) {
	r := receive(t, ok)
	s := receiver.New(receiver.Config{Now: time.Now})
	for _, address := range []string{
		r.URL, strings.Replace(r.URL, "127.0.0.1", "localhost", 1), "http://169.254.169.254/latest/meta-data",
		"http://[::1]:80/",
		"http://0.0.0.0:1/", "http://100.100.100.200/", "http://[fd00:ec2::254]/", "http://[fd20:ce::254]/",
		"http://[::ffff:169.254.169.254]/", "http://[64:ff9b:1::a9fe:a9fe]/",
	} {
		if err := s.Test(t.Context(), store.Receiver{Name: "x", Kind: store.KindWebhook, URL: address}); err == nil ||
			!strings.Contains(err.Error(), "not allowed") {
			t.Errorf("%s: %v, want a refusal", address, err)
		}
	}
	if err := s.Test(t.Context(), store.Receiver{Name: "x", Kind: store.KindWebhook, URL: r.URL, Local: true}); err != nil {
		t.Errorf("allowed: %v", err)
	}
	if n := len(r.got); n != 1 {
		t.Errorf("%d deliveries have arrived, want the one that was allowed", n)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	target := receive(t, ok)
	r := receive(t, func(_ int, w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, target.URL, http.StatusTemporaryRedirect)
	})
	s := receiver.New(receiver.Config{Now: time.Now})
	err := s.Test(t.Context(), store.Receiver{Name: "x", Kind: store.KindWebhook, URL: r.URL, Local: true})
	if err == nil || !strings.Contains(err.Error(), "does not follow redirects") || len(target.got) != 0 {
		t.Errorf("%v, %d redirected: want a refusal", err, len(target.got))
	}
}

// TestAnErrorIsShort: it is stored, logged and shown, and whoever answers could make it as long as it likes.
func TestAnErrorIsShort(t *testing.T) {
	for _, answer := range []string{
		"HTTP/1.1 500 " + strings.Repeat("x", 50_000) + "\r\nContent-Length: 0\r\n\r\n",
		strings.Repeat("garbage", 5_000) + "\r\n\r\n",
	} {
		r := receive(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, answer); err != nil {
				t.Error(err)
			}
		})
		s := receiver.New(receiver.Config{Now: time.Now})
		if err := s.Test(t.Context(), store.Receiver{Name: "x", Kind: store.KindWebhook, URL: r.URL, Local: true}); err == nil ||
			len(err.Error()) > 400 {
			t.Errorf("%.20q…: error of %d bytes, want a short one", answer, len(fmt.Sprint(err)))
		}
	}
}

func TestAnErrorTellsNoSecretOfTheURL(t *testing.T) {
	s := receiver.New(receiver.Config{Now: time.Now})
	err := s.Test(t.Context(), store.Receiver{Name: "x", Kind: store.KindWebhook, URL: "http://127.0.0.1:1/?token=hidden", Local: true})
	if err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("%v: want an error without the query", err)
	}
}

func TestCheckURL(t *testing.T) {
	for address, problem := range map[string]string{
		"https://alarms.example/hook": "", "http://10.0.0.9:8080/x": "", "https://alarms.example:443": "",
		"": "expected http", "ftp://x/": "expected http", "https://": "no host", "https://u:p@x/": "user or a password",
		"http://%zz":  "not a URL",
		"http://x:0/": "port", "http://x:65536/": "port", "http://x:y/": "not a URL", "https://x/" +
			strings.Repeat("y", 2048): "at most 2048",
		"http://127.0.0.1/": "not allowed", "http://[::1]:8080/": "not allowed",
		"http://169.254.169.254/latest": "not allowed",
		"http://[64:ff9b::a9fe:a9fe]/":  "not allowed", "http://[fe80::1%25eth0]/": "not allowed",
	} {
		err := receiver.CheckURL(store.KindWebhook, address, false)
		if (err == nil) != (problem == "") || err != nil && !strings.Contains(err.Error(), problem) {
			t.Errorf("%q: %v, want %q", address, err, problem)
		}
	}
	if err := receiver.CheckURL(store.KindWebhook, "http://127.0.0.1:1/", true); err != nil {
		t.Errorf("local: %v", err)
	}
	if err := receiver.CheckURL(store.KindWebhook, "http://user:hidden@x/", false); err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("%v: want an error without the password", err)
	}
}

// TestAStormBecomesAFewMessages: the first alarm arrives at once, and what comes while a message is under way is folded
// into the next.
func TestAStormBecomesAFewMessages(t *testing.T) {
	release := make(chan struct{})
	r := receive(t, func(n int, _ http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			<-release
		}
	})
	d := newDisk(store.Receiver{Name: "ops", Kind: store.KindWebhook, URL: r.URL, Local: true})
	s := run(t, d)
	d.happen(1)
	s.News()
	<-r.got
	for range 50 {
		d.happen(100)
		s.News()
	}
	close(release)
	got := <-r.got
	if len(got.message.Data) != 1 || got.message.Data[0].Count != 5000 {
		t.Errorf("%+v: want one entry for 5,000 alarms", got.message)
	}
}

// TestWhatIsNoAlarmIsPassedBy: it is seen at once how far a receiver has got, and stored at the end.
func TestWhatIsNoAlarmIsPassedBy(t *testing.T) {
	r := receive(t, ok)
	d := newDisk(store.Receiver{Name: "ops", Kind: store.KindWebhook, URL: r.URL, Local: true})
	d.happen(1)
	d.pass(1)
	s := receiver.New(receiver.Config{
		Store: d, Hosts: d, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Pace: time.Millisecond,
	})
	sub := store.Subscription{Receiver: d.hooks[0]}
	if got := s.Latest(sub); got.Cursor != 0 {
		t.Errorf("before Run: %+v, want what is stored", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	if n := <-d.noted; n.Cursor != 2 {
		t.Errorf("noted %+v: want both events behind it", n)
	}
	d.pass(1)
	s.News()
	for s.Latest(sub).Cursor < 3 {
		runtime.Gosched()
	}
	select {
	case n := <-d.noted:
		t.Errorf("noted %+v: want no write for it yet", n)
	default:
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := <-d.noted; n.Cursor != 3 {
		t.Errorf("noted %+v at the end", n)
	}
	if sub.Receiver.Created = time.Unix(1, 0); s.Latest(sub).Cursor != 0 {
		t.Error("a receiver made anew has got as far as the one before it")
	}
}
