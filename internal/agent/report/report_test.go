package report_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"drover/internal/fabric"
	"drover/internal/process"
	"drover/internal/spec"
	"drover/internal/wire"
)

// TestHello: the agent introduces itself first, after each connect and when it is asked to, with everything that it
// knows.
func TestHello(t *testing.T) {
	bubble(t, func(_ *testing.T, r *rig) {
		r.set(id("a"), process.Status{State: "running"})
		r.set(id("b"), process.Status{State: "stopped"})
	}, func(_ *testing.T, r *rig) {
		everything := wire.Report{Hello: r.hello(), Observed: []wire.Observation{
			first("a", "running"),
			first("b", "stopped"),
		}}
		r.want(r.take(), everything)

		r.connect()
		r.want(r.take(), everything)

		r.answers(func(rep wire.Report) (wire.ReportAck, error) { return wire.ReportAck{Hello: rep.Hello == nil}, nil })
		r.Changed(id("a"))
		r.want(r.take(), wire.Report{Observed: []wire.Observation{seen("a", "running")}}, everything)
	})
}

// TestHelloIsRepeatedUntilItArrives: soon for the first time, so that what waits for the server's word does not wait
// long.
func TestHelloIsRepeatedUntilItArrives(t *testing.T) {
	bubble(t, func(_ *testing.T, r *rig) {
		r.set(id("a"), process.Status{State: "running"})
		r.answers(func(wire.Report) (wire.ReportAck, error) { return wire.ReportAck{}, errors.New("no responders") })
	}, func(_ *testing.T, r *rig) {
		everything := wire.Report{Hello: r.hello(), Observed: []wire.Observation{first("a", "running")}}
		r.want(r.take(), everything)
		pass(time.Second)
		r.want(r.take(), everything, everything, everything, everything)
		pass(4 * time.Second)
		r.take()
		pass(2 * time.Second)
		r.want(r.take(), everything, everything)
		r.answers(accept)
		pass(time.Second)
		r.want(r.take(), everything)
		pass(time.Second)
		r.want(r.take())
	})
}

// TestAClockThatWasSetBack: where the server knows a later session, the agent takes one beyond that, and introduces
// itself again. Whoever answers a heartbeat cannot have it do so.
func TestAClockThatWasSetBack(t *testing.T) {
	later := "s" + "0fffffffffffff00" + "ABC"
	bubble(t, func(_ *testing.T, r *rig) {
		r.answers(func(wire.Report) (wire.ReportAck, error) {
			if r.session < later {
				r.refused = r.session
				return wire.ReportAck{Error: "the agent has introduced itself in a later session", Session: later}, nil
			}
			return wire.ReportAck{}, nil
		})
	}, func(t *testing.T, r *rig) {
		pass(time.Second)
		r.want(r.take(), wire.Report{Hello: r.hello()}, wire.Report{Hello: r.hello()})
		if r.session <= later || r.refused == "" {
			t.Errorf("it goes on in session %q, want one beyond %q", r.session, later)
		}
		r.answers(func(wire.Report) (wire.ReportAck, error) {
			return wire.ReportAck{Session: "s7fffffffffffffff"},
				nil
		})
		pass(5 * time.Second)
		r.want(r.take(), wire.Report{})
		pass(5 * time.Second)
		r.want(r.take(), wire.Report{}) // in the same session, which the link looks at
	})
}

// TestHeartbeat: an agent that has nothing to say says so.
func TestHeartbeat(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		pass(12 * time.Second)
		r.Changed(id("gone"))
		pass(6 * time.Second)
		if diff := cmp.Diff([]float64{0, 5, 10, 12.05, 17.05}, r.times()); diff != "" {
			t.Errorf("reports at (-want +got): %s", diff)
		}
		gone := wire.Report{Observed: []wire.Observation{{Process: id("gone"), Gone: true}}}
		r.want(r.take(), wire.Report{Hello: r.hello()}, wire.Report{}, wire.Report{}, gone, wire.Report{})
	})
}

// TestRareHeartbeats: a server may allow longer silence. The beats then keep to their own times, which are others for
// each agent, whatever is reported in between; a minute is the longest silence.
func TestRareHeartbeats(t *testing.T) {
	const most = 60.0
	firsts := map[float64]bool{}
	for range 5 {
		bubble(t, nil, func(t *testing.T, r *rig) {
			r.answers(func(wire.Report) (wire.ReportAck, error) { return wire.ReportAck{Beat: 60}, nil })
			pass(6 * time.Second)
			r.now()
			pass(time.Minute)
			sent := r.times()
			if len(sent) != 1 {
				t.Fatalf("reports at %v", sent)
			}
			first := sent[0]
			firsts[first] = true
			pass(time.Duration((first + 91 - 66) * float64(time.Second)))
			r.now()
			r.Changed(id("gone"))
			pass(2 * time.Minute)
			want := []float64{first + 91.05, first + 2*most, first + 3*most}
			if diff := cmp.Diff(want, r.times(), cmpopts.EquateApprox(0, 1e-6)); diff != "" {
				t.Errorf("reports at (-want +got): %s", diff)
			}
			r.now()
			r.answers(func(wire.Report) (wire.ReportAck, error) { return wire.ReportAck{Beat: 3600}, nil })
			pass(time.Minute)
			if sent = r.times(); len(sent) != 1 {
				t.Errorf("a server that wants to hear nothing for an hour hears something at %v", sent)
			}
			r.answers(accept)
			pass(time.Minute)
			r.now()
			pass(28 * time.Second)
			if sent = r.times(); len(sent) != 5 {
				t.Errorf("after that it beats as usual, but at %v", sent)
			}
		})
	}
	if len(firsts) < 2 {
		t.Errorf("all agents beat at the same time: %v", firsts)
	}
}

// TestOutcome: an outcome is told until it is acknowledged, and then never again.
func TestOutcome(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.take()
		r.Began("item-1", 65*time.Second)
		pass(tellAfter - newsAfter - time.Millisecond)
		r.want(r.take())
		pass(time.Millisecond)
		r.want(r.take(), wire.Report{Progress: []wire.Progress{{Item: "item-1", Limit: 65}}})
		pass(4 * time.Second)
		r.want(r.take())

		told := wire.Report{Progress: []wire.Progress{{Item: "item-1", Outcome: &process.Outcome{Text: "success"}}}}
		for _, failure := range []func(wire.Report) (wire.ReportAck, error){
			func(wire.Report) (wire.ReportAck, error) { return wire.ReportAck{}, errors.New("no responders") },
			func(wire.Report) (wire.ReportAck, error) {
				return wire.ReportAck{Error: "database is locked"}, nil
			},
		} {
			r.answers(failure)
			r.Finished("item-1", outcome("success"))
			pass(1500 * time.Millisecond)
			r.want(r.take(), told, told)
		}
		if len(r.acked) > 0 {
			t.Errorf("%v are taken as acknowledged", r.acked)
		}
		r.answers(accept)
		pass(time.Second)
		r.want(r.take(), told)
		if diff := cmp.Diff([]string{"item-1"}, r.acked); diff != "" {
			t.Errorf("acknowledged (-want +got): %s", diff)
		}
		pass(2 * time.Second)
		r.want(r.take())
	})
}

// TestServerThatTakesNothing: it is not asked more and more often by ever more hosts: some seconds each second, and
// then less.
func TestServerThatTakesNothing(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.take()
		for _, tt := range []struct {
			why  string
			how  func(wire.Report) (wire.ReportAck, error)
			want int
		}{
			{"no link", func(wire.Report) (wire.ReportAck, error) {
				return wire.ReportAck{},
					errors.New("no responders")
			}, 61},
			{"refused", func(wire.Report) (wire.ReportAck, error) { return wire.ReportAck{Error: "unknown"}, nil }, 13},
		} {
			r.answers(tt.how)
			r.Finished("item", outcome("success"))
			pass(time.Minute)
			if n := len(r.take()); n != tt.want {
				t.Errorf("%s: %d reports in a minute, want %d", tt.why, n, tt.want)
			}
			r.answers(accept)
			pass(15 * time.Second)
			if n := len(r.take()); n < 2 {
				t.Errorf("%s: %d reports after that", tt.why, n)
			}
		}
	})
}

// TestUnreadableAnswer, and one that never comes, count as none.
func TestUnreadableAnswer(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.take()
		r.answers(nil)
		r.Finished("item-1", outcome("success"))
		pass(9 * time.Second)
		r.Finished("item-2", outcome("success"))
		pass(900 * time.Millisecond)
		first := wire.Progress{Item: "item-1", Outcome: &process.Outcome{Text: "success"}}
		second := wire.Progress{Item: "item-2", Outcome: &process.Outcome{Text: "success"}}
		r.want(r.take(), wire.Report{Progress: []wire.Progress{first}})
		r.answers(accept)
		pass(2 * time.Second)
		r.want(r.take(), wire.Report{Progress: []wire.Progress{first, second}})
		if diff := cmp.Diff([]string{"item-1", "item-2"}, r.acked); diff != "" {
			t.Errorf("acknowledged (-want +got): %s", diff)
		}
	})
}

// TestAcknowledgementThatIsNotNoted: what the journal does not know to be acknowledged is told again.
func TestAcknowledgementThatIsNotNoted(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.take()
		r.full = errors.New("no space left on device")
		r.Finished("item-1", outcome("success"))
		pass(500 * time.Millisecond)
		r.mu.Lock()
		r.full = nil
		r.mu.Unlock()
		pass(time.Second)
		if got := r.take(); len(got) != 2 || len(r.acked) != 1 {
			t.Errorf("%d reports, acknowledged %v", len(got), r.acked)
		}
	})
}

// TestBegunIsToldAgain to a server that may be another one, as long as it has not ended.
func TestBegunIsToldAgain(t *testing.T) {
	bubble(t, nil, func(_ *testing.T, r *rig) {
		r.take()
		r.Began("item-1", 65*time.Second)
		r.Began("item-2", 0)
		pass(tellAfter)
		r.take()
		r.Finished("item-2", outcome("success"))
		r.take()
		r.connect()
		r.want(r.take(), wire.Report{Hello: r.hello(), Progress: []wire.Progress{{Item: "item-1", Limit: 65}}})
	})
	bubble(t, func(_ *testing.T, r *rig) {
		r.Began("short", 0)
		pass(tellAfter)
	}, func(_ *testing.T, r *rig) {
		r.want(r.take(), wire.Report{Hello: r.hello(), Progress: []wire.Progress{{Item: "short", Limit: 1}}})
	})
}

// TestEndedBeforeItIsTold: an operation that began and ended while nobody listened is told as ended only.
func TestEndedBeforeItIsTold(t *testing.T) {
	bubble(t, nil, func(_ *testing.T, r *rig) {
		r.take()
		r.answers(func(wire.Report) (wire.ReportAck, error) { return wire.ReportAck{}, errors.New("no responders") })
		r.Began("item-1", time.Minute)
		synctest.Wait()
		r.Finished("item-1", outcome("success"))
		r.take()
		r.answers(accept)
		pass(time.Second)
		r.want(r.take(),
			wire.Report{Progress: []wire.Progress{{Item: "item-1", Outcome: &process.Outcome{Text: "success"}}}})
	})
}

// TestShortOperations: of what is over in no time only the outcome is told, and of what has begun meanwhile that it
// has.
func TestShortOperations(t *testing.T) {
	bubble(t, nil, func(_ *testing.T, r *rig) {
		r.take()
		r.Began("short", time.Minute)
		pass(tellAfter / 2)
		r.Began("long", time.Minute)
		r.Finished("short", outcome("success"))
		r.want(r.take(),
			wire.Report{Progress: []wire.Progress{{Item: "short", Outcome: &process.Outcome{Text: "success"}}}})
		pass(tellAfter)
		r.want(r.take(), wire.Report{Progress: []wire.Progress{{Item: "long", Limit: 60}}})
	})
}

// TestOneReport: what an operation changes is told with its outcome at once, and the outcomes of operations beside each
// other are told together; no report is empty.
func TestOneReport(t *testing.T) {
	bubble(t, nil, func(_ *testing.T, r *rig) {
		r.take()
		done := func(item string) wire.Progress {
			return wire.Progress{Item: item, Outcome: &process.Outcome{Text: "success"}}
		}
		r.set(id("a"), process.Status{State: "starting"})
		r.Began("item-1", time.Minute)
		pass(newsAfter / 2)
		r.set(id("a"), process.Status{State: "running"})
		r.Finished("item-1", outcome("success"))
		r.want(r.now(), wire.Report{
			Observed: []wire.Observation{first("a", "running")}, Progress: []wire.Progress{done("item-1")},
		})
		r.want(r.take())

		r.setBusy(true)
		r.Finished("item-2", outcome("success"))
		pass(newsAfter / 2)
		r.Finished("item-3", outcome("success"))
		pass(newsAfter/2 - time.Millisecond)
		r.want(r.now())
		pass(time.Millisecond)
		r.want(r.now(), wire.Report{Progress: []wire.Progress{done("item-2"), done("item-3")}})
		r.setBusy(false)
		r.Finished("item-4", outcome("success"))
		r.want(r.now(), wire.Report{Progress: []wire.Progress{done("item-4")}})
		r.want(r.take())
	})
}

// TestBeginningIsOneReport: the beginning of a longer operation is told with the state that it shows by then. Other
// news does not wait for that.
func TestBeginningIsOneReport(t *testing.T) {
	bubble(t, nil, func(_ *testing.T, r *rig) {
		r.take()
		r.Began("item-1", time.Minute)
		r.set(id("b"), process.Status{State: "backoff"})
		pass(newsAfter)
		r.want(r.now(), wire.Report{Observed: []wire.Observation{first("b", "backoff")}})
		pass(tellAfter - newsAfter)
		r.set(id("a"), process.Status{State: "starting"})
		r.want(r.now())
		pass(newsAfter)
		r.want(r.now(), wire.Report{
			Observed: []wire.Observation{first("a", "starting")},
			Progress: []wire.Progress{{Item: "item-1", Limit: 60}},
		})
		r.set(id("a"), process.Status{State: "running"})
		pass(newsAfter)
		r.want(r.now(), wire.Report{Observed: []wire.Observation{seen("a", "running")}})
	})
}

// TestLatestStateOnly: of what changes while a report is under way, or cannot be delivered, only the end counts.
func TestLatestStateOnly(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.take()
		r.answers(func(wire.Report) (wire.ReportAck, error) { return wire.ReportAck{}, errors.New("no responders") })
		r.set(id("a"), process.Status{State: "starting"})
		pass(newsAfter)
		for i := range 100 {
			r.set(id("a"), process.Status{State: fmt.Sprint(i)})
			r.set(id("b"), process.Status{State: "backoff"})
		}
		r.want(r.take(), wire.Report{Observed: []wire.Observation{first("a", "starting")}})
		r.answers(accept)
		pass(time.Second)
		r.want(r.take(), wire.Report{Observed: []wire.Observation{first("a", "99"), first("b", "backoff")}})

		r.mu.Lock()
		delete(r.known, id("a"))
		r.mu.Unlock()
		r.Changed(id("a"))
		r.want(r.take(), wire.Report{Observed: []wire.Observation{{Process: id("a"), Gone: true}}})
	})
}

// TestSpecIsToldOnce: with the first state that arrives, when it is another one, and after each introduction.
func TestSpecIsToldOnce(t *testing.T) {
	bubble(t, nil, func(_ *testing.T, r *rig) {
		r.take()
		observed := func(o wire.Observation) wire.Report { return wire.Report{Observed: []wire.Observation{o}} }
		r.answers(func(wire.Report) (wire.ReportAck, error) { return wire.ReportAck{}, errors.New("link lost") })
		r.set(id("a"), process.Status{State: "starting"})
		r.want(r.take(), observed(first("a", "starting")))
		r.answers(accept)
		pass(time.Second)
		r.want(r.take(), observed(first("a", "starting")))
		r.set(id("a"), process.Status{State: "running"})
		r.want(r.take(), observed(seen("a", "running")))

		r.mu.Lock()
		r.specs[id("a")] = &process.Spec{Compat: &spec.Compat{Contact: "another"}}
		r.mu.Unlock()
		r.Changed(id("a"))
		another := seen("a", "running")
		another.Spec = &process.Spec{Compat: &spec.Compat{Contact: "another"}}
		r.want(r.take(), observed(another))
		r.Changed(id("a"))
		r.want(r.take(), observed(seen("a", "running")))

		r.connect()
		r.want(r.take(), wire.Report{Hello: r.hello(), Observed: []wire.Observation{another}})

		r.mu.Lock()
		delete(r.known, id("a"))
		r.mu.Unlock()
		r.Changed(id("a"))
		r.want(r.take(), observed(wire.Observation{Process: id("a"), Gone: true}))
		r.set(id("a"), process.Status{State: "stopped"})
		another.Status.State = "stopped"
		r.want(r.take(), observed(another))
	})
}

// TestReportsWaitForALink: without a link, an agent makes next to no reports. A new link brings one at once.
func TestReportsWaitForALink(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.take()
		r.linkState.Lost()
		r.answers(func(wire.Report) (wire.ReportAck, error) { return wire.ReportAck{}, fabric.ErrNotConnected })
		for range 60 {
			r.set(id("a"), process.Status{State: "running"})
			pass(time.Second)
		}
		if made := len(r.take()); made > 7 {
			t.Errorf("%d reports in a minute without a link", made)
		}
		r.answers(accept)
		r.connect()
		synctest.Wait()
		r.want(r.take(), wire.Report{Hello: r.hello(), Observed: []wire.Observation{first("a", "running")}})
	})
}

// TestReconnectWhileAReportIsUnderWay: the answer to a report of before does not stand for the introduction.
func TestReconnectWhileAReportIsUnderWay(t *testing.T) {
	bubble(t, nil, func(_ *testing.T, r *rig) {
		r.take()
		asked, goOn := make(chan struct{}), make(chan struct{})
		r.answers(func(wire.Report) (wire.ReportAck, error) {
			close(asked)
			<-goOn
			r.answers(accept)
			return wire.ReportAck{}, nil
		})
		r.set(id("a"), process.Status{State: "running"})
		<-asked
		r.connect()
		close(goOn)
		r.want(r.take(), wire.Report{Observed: []wire.Observation{first("a", "running")}},
			wire.Report{Hello: r.hello(), Observed: []wire.Observation{first("a", "running")}})
	})
}

// TestAllChangesArrive: whatever happens at whatever moment of a report is told in the end.
func TestAllChangesArrive(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				for i := range 300 {
					item := fmt.Sprintf("item-%d-%d", w, i)
					r.Began(item, time.Minute)
					r.set(id(fmt.Sprint(w)), process.Status{State: fmt.Sprint(i)})
					r.Finished(item, outcome(item))
				}
			})
		}
		wg.Wait()
		pass(time.Second)
		last, outcomes := map[string]string{}, map[string]int{}
		for _, rep := range r.take() {
			for _, o := range rep.Observed {
				last[o.Process.Name] = o.Status.State
			}
			for _, p := range rep.Progress {
				if p.Outcome != nil {
					outcomes[p.Item]++
				}
			}
		}
		if diff := cmp.Diff(map[string]string{"0": "299", "1": "299", "2": "299", "3": "299"}, last); diff != "" {
			t.Errorf("states (-want +got): %s", diff)
		}
		if len(outcomes) != 1200 || len(r.acked) != 1200 {
			t.Errorf("%d outcomes are told, %d acknowledged; want 1200", len(outcomes), len(r.acked))
		}
		for item, n := range outcomes {
			if n != 1 {
				t.Errorf("%s is told %d times", item, n)
			}
		}
	})
}

// TestRenewedTrustIsReportedAtOnce: whoever replaces keys waits until each host goes by them. Trust that the agent
// rejects comes again with each report, and must not make the agent report without a pause.
func TestRenewedTrustIsReportedAtOnce(t *testing.T) {
	for trusts, reports := range map[bool]int{true: 2, false: 1} {
		bubble(t, nil, func(t *testing.T, r *rig) {
			r.take()
			r.trusts = trusts
			renewals := 1
			r.answers(func(wire.Report) (wire.ReportAck, error) {
				if renewals--; renewals < 0 && trusts {
					return wire.ReportAck{}, nil
				}
				return wire.ReportAck{Trust: []byte("renewed")}, nil
			})
			r.set(id("a"), process.Status{State: "running"})
			pass(time.Second)
			if got := r.take(); len(got) != reports {
				t.Errorf("trust that is adopted (%v) leads to %d reports, want %d", trusts, len(got), reports)
			}
		})
	}
}
